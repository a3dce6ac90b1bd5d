package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"stile/config"
	"stile/key"
)

func keys(args []string) int {
	f := flags("key", "new|rotate [-c FILE]", `new     makes the key file that the configuration names; never overwrites one
rotate  puts a new key in front: it signs from the next reload on (kill -HUP), and the
        old ones go on to verify what they have signed; the oldest are dropped

Passes stay valid over a rotation. Replicas need the same file.
`)
	file := f.String("c", "", "configuration `file`")
	keep := f.Int("keep", 2, "with rotate: how many old keys to `keep`")
	verb := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		verb, args = args[0], args[1:]
	}
	if status, done := parse(f, args); done {
		return status
	}
	if verb == "" && f.NArg() == 1 {
		verb = f.Arg(0)
	}
	if verb != "new" && verb != "rotate" || *keep < 0 || *keep >= key.MaxKeys {
		f.Usage()
		return 2
	}
	cfg, _, ok := load(*file)
	if !ok {
		return 1
	}
	if verb == "new" {
		return newKey(cfg)
	}
	return rotateKey(cfg, *keep)
}

func newKey(cfg *config.Config) int {
	if err := key.Create(cfg.Key.File); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w (to change keys without logging anybody out: stile key rotate)", err)
		}
		return fail(err)
	}
	fmt.Println("made", cfg.Key.File)
	return 0
}

func rotateKey(cfg *config.Config, keep int) int {
	r, err := key.Rotate(cfg.Key.File, keep)
	if err != nil {
		return fail(err)
	}
	fmt.Printf("rotated %s: %s signs, %d older verify; reload the daemon (kill -HUP), and do not\nrotate again within %s, the life of a pass, more than %d times\n",
		cfg.Key.File, r.Fingerprint(), r.Len()-1, cfg.Pass.Lifetime.Round(time.Minute), keep)
	return 0
}
