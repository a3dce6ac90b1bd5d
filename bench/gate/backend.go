package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The backend is the package site of the story: for GET /packages/SIZE/N it decodes a
// file of JSON and renders a page of it. It runs in a process of its own whose memory
// the kernel limits (RLIMIT_DATA: what is asked for beyond it is refused, and Go
// dies of "out of memory").
//
// On its standard output it says what it is doing, a line each:
//
//	begin CLIENT SIZE NANOSECONDS
//	end CLIENT SIZE NANOSECONDS
type backend struct {
	dir string // of the files
}

// serveBackend serves on a unix socket, with so many bytes of memory; 0: no limit.
func serveBackend(dir, socket string, limit int64) error {
	if limit > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: uint64(limit), Max: uint64(limit)}); err != nil {
			return fmt.Errorf("limiting memory: %w", err)
		}
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // who has started it is gone
	}()
	os.Remove(socket) // of the one that died
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return err
	}
	b := &backend{dir: dir}
	mux := http.NewServeMux()
	mux.HandleFunc("/packages/{size}/{n}", b.page)
	mux.HandleFunc("/live/{size}", b.live)
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	return http.Serve(ln, mux)
}

func (b *backend) page(w http.ResponseWriter, r *http.Request) {
	size, client := r.PathValue("size"), r.Header.Get("X-Real-IP")
	say("begin", client, size)
	page, err := b.render(size)
	say("end", client, size)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.Write(page)
}

func say(what, client, size string) {
	line := what + " " + client + " " + size + " " + strconv.FormatInt(time.Now().UnixNano(), 10) + "\n"
	os.Stdout.WriteString(line)
}

func (b *backend) decode(size string) (map[string]any, error) {
	text, err := os.ReadFile(pageFile(b.dir, path.Base(size)))
	if err != nil {
		return nil, err
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// render holds all that the file says until the page is done.
func (b *backend) render(size string) ([]byte, error) {
	v, err := b.decode(size)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "<!doctype html><title>%s</title><h1>%[1]s</h1><table>\n", html.EscapeString(v["name"].(string)))
	for _, x := range v["versions"].([]any) {
		version := x.(map[string]any)
		var needs []string
		for _, n := range version["needs"].([]any) {
			need := n.(map[string]any)
			needs = append(needs, need["name"].(string)+" "+need["range"].(string))
		}
		sum := 0.0
		files := version["files"].([]any)
		for _, f := range files {
			sum += f.(map[string]any)["size"].(float64)
		}
		fmt.Fprintf(&page, "<tr><td>%s<td>%s<td>%s<td>%d files, %.0f bytes\n", html.EscapeString(version["version"].(string)),
			html.EscapeString(version["published"].(string)), html.EscapeString(strings.Join(needs, ", ")), len(files), sum)
	}
	page.WriteString("</table>\n")
	runtime.KeepAlive(v)
	return page.Bytes(), nil
}

// live says how many bytes of heap the decoded file holds, with everything else
// collected.
func (b *backend) live(w http.ResponseWriter, r *http.Request) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	v, err := b.decode(r.PathValue("size"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	fmt.Fprintln(w, int64(after.HeapAlloc)-int64(before.HeapAlloc))
}
