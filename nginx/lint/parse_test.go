package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stile/nginx"
	"stile/nginx/nginxtest"
)

// one reads a file's text.
func one(text string) ([]*directive, error) {
	return (&lexer{file: "f", text: text, line: 1}).block(0, new(int))
}

// show is a list of directives with their words apart.
func show(list []*directive) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "%d:%s", d.line, d.name)
		for _, a := range d.args {
			fmt.Fprintf(&b, "|%s", a)
		}
		if d.open {
			fmt.Fprintf(&b, "{%s}", show(d.block))
		}
		b.WriteString(";")
	}
	return b.String()
}

func TestSyntax(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		list, err := one(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := show(list); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	f("", "")
	f("a;", "1:a;")
	f("# a;\n\n a  b\tc\r\n;", "3:a|b|c;")
	f("a b#c; # d", "1:a|b#c;")
	f(`a "b c" 'd "e' "f\"g";`, `1:a|b c|d "e|f"g;`)
	f(`a "" '';`, `1:a||;`)
	f(`a b\ c d\;e "\t\n\x";`, "1:a|b\\ c|d\\;e|\t\n\\x;")
	f("a ${b}c$d;", "1:a|${b}c$d;")
	f("a b}c;", "1:a|b}c;")
	f("a{}b{c;}", "1:a{};1:b{1:c;};")
	f("a\n{\nb c\n;\n}\nd;", "1:a{3:b|c;};6:d;")
	f(`if ($a = "b") { c; }`, "1:if|($a|=|b|){1:c;};")
	f(`if ($a ~ "^\d{3}$") { c; }`, `1:if|($a|~|^\d{3}$|){1:c;};`)
	f(`location ~ "^/\w{2}" { }`, `1:location|~|^/\w{2}{};`)
	f("a 'b\nc' d;\ne;", "1:a|b\nc|d;3:e;")
	f("content_by_lua_block { if a then b = {1, '}'} end -- }\n x = [[}]] y = [==[ ]] } ]==] --[[ } ]] z = \"\\\"}\" }\nd;", "1:content_by_lua_block{};3:d;")
	f("location / { access_by_lua_block {\n local t = {}\n t[1] = t[2]\n} e; }", "1:location|/{1:access_by_lua_block{};4:e;};")
}

func TestSyntaxErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		list, err := one(text)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %s, %v; want %s", text, show(list), err, want)
		}
	}
	f("a", `f:1: "a" is not ended by ";" or "{": the file is cut off here`)
	f("a b\nc d", `f:1: "a" is not ended by ";" or "{": the file is cut off here`)
	f("\n;", `f:2: unexpected ';'`)
	f("{", `f:1: unexpected '{'`)
	f("a {} }", `f:1: unexpected "}"`)
	f("a { b }", `f:1: unexpected "}": "b" in line 1 is not ended by ";"`)
	f("\na {\nb;", `f:2: the block "a" is not closed: the file is cut off, or a "}" is missing`)
	f("a {\nb {\nc;", `f:2: the block "b" is not closed: the file is cut off, or a "}" is missing`)
	f("a \"b;\nc;", `f:1: a quotation mark (") that is not closed`)
	f(`a "b"c;`, `f:1: unexpected 'c' after a quotation mark`)
	f("x_by_lua_block { {} '}'", `f:1: the Lua of "x_by_lua_block" is not closed: the file is cut off here`)
	f("a "+strings.Repeat("b", maxWord+2)+";", fmt.Sprintf("f:1: a parameter of more than %d bytes: is a quotation mark missing?", maxWord))
	f(strings.Repeat("a {", maxDepth+1)+strings.Repeat("}", maxDepth+1), fmt.Sprintf("f:1: blocks in blocks, more than %d deep", maxDepth))
	f(strings.Repeat("a;", maxDirectives+1), fmt.Sprintf("f:1: more than %d directives, which no configuration has", maxDirectives))
	if _, err := one(strings.Repeat("a {", maxDepth) + strings.Repeat("}", maxDepth)); err != nil {
		t.Error(err)
	}
}

// What is not the output of nginx -T is said in one line, and not taken for a configuration without holes.
func TestBadInput(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := Check([]byte(text), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: got %v, want …%s…", text, err, want)
		}
	}
	f("", "is empty")
	f("  \n\n", "is empty")
	f("http { server { } }", "is one file of a configuration")
	f("server { listen 80; }\r\n", "is one file of a configuration")
	f("Hello, world; this is a letter.\n", "is not the output of nginx -T")
	f("http { server {", "is not the output of nginx -T")
	f("nginx: the configuration file /etc/nginx/nginx.conf syntax is ok\nnginx: configuration file /etc/nginx/nginx.conf test is successful\n", "is the output of nginx -t, which only tests")
	f("\x1f\x8b\x08\x00", "is compressed")
	f("\x7fELF\x00\x00", "is binary")
	f(header+"/n:\nhttp {}\x00", "is binary")
	f("nginx: [emerg] unknown directive \"x\" in /etc/nginx/nginx.conf:3\n", "nginx has refused its own (nginx: [emerg] unknown directive")
	f(header+"/etc/nginx/nginx.conf:\nhttp {\n server {\n  listen 80;\n", `/etc/nginx/nginx.conf:2: the block "server" is not closed`)
	f(header+"/etc/nginx/nginx.conf:\nhttp { include a.conf; }\n", "/etc/nginx/nginx.conf:1: the file /etc/nginx/a.conf is not in the output of nginx -T")
	f(header+"/etc/nginx/nginx.conf:\nstream { server { listen 1; } }\n", "there is no http { } block")
	f(header+"/n/a:\nhttp { include b; }\n"+header+"/n/b:\ninclude b;\n", "does a file include itself?")
	f(header+"/n/a:\nhttp {}\n"+header+"/n/b:\nserver {\n"+header+"/n/c:\n}\n", "/n/c:1: unexpected \"}\"")
	f(strings.Repeat(" ", MaxDump)+"x;", "has more than 64 MB")
	var b strings.Builder // each file includes the next one twice
	b.WriteString(header + "/n/a0:\nhttp { include a1; }\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, "%s/n/a%d:\ninclude a%d; include a%d;\n", header, i, i+1, i+1)
	}
	b.WriteString(header + "/n/a40:\nx;\n")
	f(b.String(), "directives with all includes")
}

// Names of included files are relative to the main file; "*" is sorted and passes hidden files over.
func TestIncludes(t *testing.T) {
	d, err := parse([]byte("noise\n" + header + "/n/main.conf:\r\nhttp { include sub/*.conf; include /abs/x; include ./y; include none/*.conf; }\r\n" +
		header + "/n/sub/b.conf:\nb;\n" + header + "/n/sub/.a.conf:\nhidden;\n" + header + "/n/sub/a.conf:\na;\n" +
		header + "/n/sub/deeper/c.conf:\nc;\n" + header + "/abs/x:\nx;\n" + header + "/n/./y:\ny;\n" + header + "/abs/x:\nx; x;\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := resolve(d)
	if err != nil {
		t.Fatal(err)
	}
	if got := show(s.http.order); got != "1:a;1:b;1:x;1:y;" {
		t.Error(got)
	}
}

// A path comes to the same location as in a real nginx.
func TestRoute(t *testing.T) {
	locations := []string{
		"/", "= /exact", "/a", "^~ /s/", `~ \.php$`, `~* \.(PNG|gif)$`, "=/glued", "~ ^/(?!x)unknown", "/n/", "^~ /m/",
		"/a > /a/b", `/a > /a/b > ~ \.x$`, "/a > = /a/e", `/a > ~ \.y$`, "/a > ^~ /a/n/", "^~ /s/ > /s/t", `^~ /s/ > ~ /u`,
		`~ \.php$ > ~ /in/`, `/n/ > ~ \.(x|php)$`, "^~ /m/ > ^~ /m/m", "@named",
	}
	text := ""
	var build func(l string) string
	build = func(l string) string {
		own := l[strings.LastIndex(l, " > ")+1:]
		own = strings.TrimPrefix(own, "> ")
		inner := ""
		for _, c := range locations {
			if rest, ok := strings.CutPrefix(c, l+" > "); ok && !strings.Contains(rest, " > ") {
				inner += build(c)
			}
		}
		return fmt.Sprintf("location %s { return 200 %d;\n%s}\n", own, slices.Index(locations, l), inner)
	}
	for _, l := range locations {
		if !strings.Contains(l, " > ") {
			text += build(l)
		}
	}
	list, err := one("server {\n" + text + "}")
	if err != nil {
		t.Fatal(err)
	}
	st := &site{dump: &dump{}, upstreams: map[string]*upstream{}}
	http := &scope{kind: httpScope, own: map[string][]*directive{}}
	if err := st.fill(http, list, 0, false); err != nil {
		t.Fatal(err)
	}
	srv := st.servers[0]
	n := nginxtest.Start(t, nginxtest.Options{Site: "server {\nlisten 80;\n" + text + "}"})
	for _, p := range []string{"/", "/x", "/exact", "/exact/", "/ab", "/a", "/a/b", "/a/b/c.x", "/a/b.php", "/a/e", "/a/e.php", "/a/q.y", "/a/q.php",
		"/a/n/q.y", "/a/n/q.php", "/s/x.php", "/s/t", "/s/t.php", "/s/t/u", "/s/u.php", "/in/x.php", "/x.php", "/x.Gif", "/glued", "/n/a.x", "/n/a.php",
		"/n/a.gif", "/m/x.php", "/m/m.php", "/m/mm"} {
		got := srv.route(p)
		if got == nil || got.own["return"][0].arg(1) != n.Get(p).Body {
			t.Errorf("%s: got %v, nginx takes location %s", p, got, n.Get(p).Body)
		}
	}
	if srv.named("@named") == nil || srv.target("@none") != nil || srv.target("$x") != nil {
		t.Error("named locations")
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{"30s": "30s", "30": "30s", "1m30s": "1m30s", "500ms": "500ms", "1h 5m": "1h5m0s", "1d": "24h0m0s"} {
		if got, ok := parseTime(text); !ok || got.String() != want {
			t.Errorf("%q: %s %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "s", "x", "$t", "99999999999999999999s"} {
		if got, ok := parseTime(text); ok {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]string{"": "", "$": "", "$a": "a", "x$a-${b}c$1d": "a b 1", "$$a": "a", "${a": "", "$arg_x$uri": "arg_x uri"} {
		if got := strings.Join(variables(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{`^/(.*)$`: "", `^/([^/]+)/(\d+)$`: "1", `(?<a>[^x])(?<b>.)`: "1 a", `((?s).*)`: "1", `(\W)`: "1", `(?!x)(y)`: ""} {
		if got := strings.Join(breaking(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestParseListening(t *testing.T) {
	got := fmt.Sprint(ParseListening(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 00000000:0BB9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:0BBA 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 00000000000000000000000000000000:0BBB 00000000000000000000000000000000:0000 0A 0 0 0 0 0 4
   4: 00000000000000000000000001000000:0BBC 00000000000000000000000000000000:0000 0A 0 0 0 0 0 5
   5: 0000000000000000FFFF00000100007F:0BBD 00000000000000000000000000000000:0000 0A 0 0 0 0 0 6
   6: zz:0BBD x 0A
   7: 00:0BBD x 0A
`))
	if want := "[127.0.0.1:3000 0.0.0.0:3001 [::]:3003 [::1]:3004 127.0.0.1:3005]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Whatever is read: no panic, and the same reading of what it writes out again.
func FuzzCheck(f *testing.F) {
	for name, text := range nginx.Files(nginx.Prefix) {
		if strings.HasPrefix(name, "sites/") || len(text) < 2000 {
			f.Add(text)
		}
	}
	files, err := filepath.Glob("testdata/*.conf")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("server { include x_*; location ~ (a { } if ($a ~ \"b\") { return 1; } }\n" + header + "/x_1:\nlisten 1;\n")
	f.Add("http { a_by_lua_block { [==[ ]] }")
	f.Add("server { include snippets/stile.conf; location ^~ /a { location @b { proxy_pass http://stile$1; error_page 401 @b; } } }")
	f.Add("server { if { } if ($a) { if ($b) { return 1; } set $a; set; rewrite; rewrite a; } rewrite ( $1; rewrite ^(.)(.*) $2$3${1} last; " +
		"if ($uri ~) { } if (! -e) { } if (-f $uri) { break; } if ($a = $uri) { set $x $9; } set $x $x$1; include snippets/stile.conf; location / { proxy_pass http://$x; set $x 1; } }")
	before, after, ok := strings.Cut(string(dumped("SITE")), "SITE")
	if !ok {
		f.Fatal("no site")
	}
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := one(text); err == nil {
			var b strings.Builder
			flat(list, func(_ int, line string) { b.WriteString(line + "\n") })
			_, err := one(b.String())
			if err != nil && !strings.ContainsAny(text, "\\$") && !strings.Contains(text, "_by_lua_block") {
				t.Fatalf("%q is written as %q: %v", text, b.String(), err)
			}
		}
		for _, in := range []string{header + "/n/main:\n" + text, before + text + after} {
			r, err := Check([]byte(in), Options{})
			if err != nil {
				continue
			}
			if err := r.Write(discard{t}, true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// discard takes what is written, and looks that a configuration's control bytes are not in it.
type discard struct{ t *testing.T }

func (d discard) Write(b []byte) (int, error) {
	for _, c := range strings.NewReplacer(red, "", yellow, "", cyan, "", bold, "", plain, "", "\n", "").Replace(string(b)) {
		if c < ' ' || c == 0x7f {
			d.t.Fatalf("a control byte is written: %q", b)
		}
	}
	return len(b), nil
}
