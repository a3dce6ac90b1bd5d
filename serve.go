package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"stile/config"
	"stile/server"
	"stile/systemd"
)

func serve(args []string) int {
	f := flags("serve", "[-c FILE]", `Runs the daemon in the foreground. SIGHUP reads the configuration and the keys
again; a broken file changes nothing. SIGTERM and SIGINT let open requests finish, for
up to 5 s; a second one ends it at once. Under systemd it takes the sockets that it is
handed, and says when it is ready and that it is alive.
`)
	file := f.String("c", "", "configuration `file`")
	if status, done := parse(f, args); done {
		return status
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // from the beginning: it must not end a daemon that starts
	supervisor, err := systemd.FromEnvironment()
	if err != nil {
		return fail(err)
	}
	cfg, name, ok := load(*file)
	if !ok {
		return 1
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if name == "" {
		log.Info("no configuration file, using the defaults", "looked_for", defaultFile)
	}
	s, err := server.New(cfg, server.Options{
		Version: version, Log: log, Systemd: supervisor,
		// A file that was not there at the start may be there now.
		Load: func() (*config.Config, error) { return config.Load(configFile(*file)) },
	})
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)
	reload := make(chan struct{})
	go func() {
		for range hup {
			reload <- struct{}{}
		}
	}()
	if os.Getenv("GOGC") == "" {
		// The tables are most of the heap and never garbage: letting it grow to twice
		// their size between collections would be for nothing.
		debug.SetGCPercent(50)
	}
	log.Info("starting", "version", version, "file", name)
	if err := s.Run(ctx, reload, nil); err != nil {
		return fail(err)
	}
	return 0
}
