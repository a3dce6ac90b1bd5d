package lint

import "testing"

// What a server's rewrite phase does to the question to stile: above the include, where nothing keeps it off.
func TestRewrites(t *testing.T) {
	f := func(lines, want string) {
		t.Helper()
		r := check(t, "map $uri $kind { default page; }\nserver {\nlisten 80;\nserver_name a.example;\n"+lines+"\ninclude snippets/stile.conf;\n"+
			"location / { proxy_set_header X-A $a; proxy_pass http://127.0.0.1:3000; }\nlocation /b { set $b 1; proxy_pass http://127.0.0.1:3000$b; }\n}\n", Options{})
		got := ""
		for _, x := range r.Findings {
			if x.Code == "rewritten" || x.Code == "set-again" {
				got += x.Severity.String() + " " + x.Code + " " + x.Says + "\n"
			}
		}
		if got != want {
			t.Errorf("%s:\ngot  %swant %s", lines, got, want)
		}
	}
	moved := func(d, to string) string {
		return "error rewritten `" + d + "` holds for the question to stile, too: nginx asks " + to + " in its place\n"
	}
	answers := func(d string) string {
		return "error rewritten `" + d + "` answers the question to stile, which has the path /.stile/check and no arguments\n"
	}

	// It is in the way.
	f("rewrite ^ /index.php last;", moved("rewrite ^ /index.php last", "/index.php"))
	f("rewrite ^ /sites/$host$uri;", moved("rewrite ^ /sites/$host$uri", "/sites/$host/.stile/check"))
	f("rewrite ^ $kind last;", moved("rewrite ^ $kind last", "$kind"))
	f("rewrite ^(.*)$ /x$1;", moved("rewrite ^(.*)$ /x$1", "/x/.stile/check"))
	f("rewrite ^/(.*)$ /x;\nrewrite ^/x$ /y break;", moved("rewrite ^/(.*)$ /x", "/x")+moved("rewrite ^/x$ /y break", "/y"))
	f("if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }", moved("rewrite ^(.*)$ /index.php?q=$1 last", "/index.php"))
	f("if (!-f $document_root$uri) { rewrite ^ /index.php; break; }", moved("rewrite ^ /index.php", "/index.php"))
	f("if ($http_cookie ~ x) { rewrite ^(.*)$ /m$1; }", moved("rewrite ^(.*)$ /m$1", "/m/.stile/check"))
	f("if ($host ~ ^(.*)\\.a\\.example$) { set $u $1; rewrite ^(.*)$ /u$1; }", moved("rewrite ^(.*)$ /u$1", "/u/.stile/check"))
	f("rewrite ^(.*[^/])$ $1/ permanent;", answers("rewrite ^(.*[^/])$ $1/ permanent"))
	f("if ($uri ~ /\\.) { return 404; }", answers("return 404"))
	f("if ($uri !~ ^/b) { return 301 /b; }", answers("return 301 /b"))
	f("if ($args = \"\") { return 204; }", answers("return 204"))
	f("if ($arg_token != secret) { return 403; }", answers("return 403"))
	f("if ($is_args = \"\") { rewrite ^ /x redirect; }", answers("rewrite ^ /x redirect"))
	f("set $a 0; if ($uri ~ ^/b) { set $a 1; } if ($a = 0) { return 403; }",
		answers("return 403")+"warning set-again `set $a 0` runs once more with the question to stile, where the if about the path or the arguments that has changed $a does not hold\n")

	// It is not: it has answered the request itself, or is about something else.
	f("return 301 https://a.example$request_uri;", "")
	f("rewrite ^/(.*)$ https://a.example/$1 permanent;", "")
	f("rewrite ^ https://a.example$request_uri? permanent;", "")
	f("if ($scheme = http) { return 301 https://$host$request_uri; }", "")
	f("if ($host = b.example) { rewrite ^(.*)$ https://a.example$1 permanent; }", "")
	f("if ($http_user_agent ~* (bad|worse)) { return 403; }", "")
	f("if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }", "")
	f("if ($request_uri ~ \"//\") { return 400; }", "")
	f("if (-f /srv/maintenance) { return 503; }", "")
	f("if (-f $document_root/maintenance.html) { return 503; }", "")
	f("if ($uri ~ ^/old/(.*)$) { return 301 /new/$1; }", "")
	f("rewrite ^/old/(.*)$ /new/$1 permanent; rewrite ^/pages/(\\d+)$ /page.php?id=$1 last;", "")
	f("if (-f $request_filename) { break; }", "")
	f("rewrite ^/(?!\\.stile)(.*)$ /index.php last;", "")
	f("rewrite ^(.*)$ $1 break; rewrite ^ /x last;", "")
	f("if ($uri ~ ^/\\.stile/) { break; } rewrite ^ /index.php last;", "")
	f("if ($args ~ bad) { return 403; }", "")
	f("if ($arg_id) { rewrite ^ /page last; }", "")

	again := func(sev, d, why string) string {
		return sev + " set-again `" + d + "` runs once more with the question to stile, " + why + "\n"
	}
	own := "where the path is /.stile/check and there are no arguments"
	f("set $a $uri;", again("warning", "set $a $uri", own))
	f("set $c $args; set $a x$c;", again("warning", "set $a x$c", own))
	f("set $a 0; if ($query_string != \"\") { set $a 1; }", again("warning", "set $a 0", "where the if about the path or the arguments that has changed $a does not hold"))
	f("set $a 1; if ($query_string = \"\") { set $a 0; }", again("warning", "set $a 0", own))
	f("if ($uri ~ ^/(.)) { set $a $1; }", again("warning", "set $a $1", own))
	f("set $b 0;", again("error", "set $b 0", "after the location has set it (/etc/nginx/sites-enabled/site.conf:8)"))
	f("set $b 1;", "")
	f("set $d 0; location /d { set $d 1; if ($d) { return 404; } } location /e { proxy_pass http://127.0.0.1:3000$d; }", "")
	f("set $a $host; set $c $uri;", "")
	f("set $a $request_uri; if ($request_method = POST) { set $a 1; } if ($http_cookie ~ (.)) { set $a $1; }", "")
	f("if ($query_string != \"\") { set $a 1; }", "")
	f("set $a $kind;", "")
	f("set $stile_scheme $http_x_forwarded_proto;", "")
	f("set $stile_user $arg_user;", again("warning", "set $stile_user $arg_user", own))
}
