package lint_test

import (
	"io"
	"net/http"
	"time"

	"stile/nginx/nginxtest"
)

// Places in gates that do not come back when they should.
var gates = []hole{
	{
		name: "an access_log of its own", code: "access-log", answer: nginxtest.Admit,
		open: `location /x { include snippets/stile-gate.conf; access_log /run/stile/x.log; proxy_pass http://app; }`,
		shut: `location /x { include snippets/stile-gate.conf; access_log /run/stile/x.log; include snippets/stile-lease.conf; proxy_pass http://app; }`,
		show: showLease,
	},
	{
		name: "access_log off", code: "access-log", answer: nginxtest.Admit,
		open: `location /x { include snippets/stile-gate.conf; access_log off; proxy_pass http://app; }`,
		shut: `location /x { include snippets/stile-gate.conf; include snippets/stile-lease.conf; proxy_pass http://app; }`,
		show: showLease,
	},
	{
		name: "a slow reader in a gate", code: "gate-slow", answer: nginxtest.Admit,
		open: `location /x { include snippets/stile-gate.conf; proxy_buffering off; proxy_pass http://app; }`,
		shut: `location /x { include snippets/stile-gate.conf; proxy_buffering on; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			done := make(chan bool, 1)
			w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
				_, err := rw.Write(make([]byte, 32<<20))
				done <- err == nil
			})
			c := w.Dial(80)
			defer c.Close()
			if _, err := io.WriteString(c, nginxtest.Request("GET", "/x", "")); err != nil {
				w.t.Fatal(err)
			}
			if shut { // nobody reads, and the backend has ended
				select {
				case ok := <-done:
					if !ok {
						w.t.Error("the answer was not taken")
					}
				case <-time.After(20 * time.Second):
					w.t.Error("the backend still waits for the client")
				}
				return
			}
			await(w.t, func() bool { return len(w.app.Hits()) == 1 })
			select {
			case <-done:
				w.t.Error("the backend did not wait for the client")
			case <-time.After(time.Second):
			}
		},
	},
}
