// Built into stile by vm/test.sh, and never else: a version that starts, serves, and
// ends after three seconds, in the middle of whatever it is doing.
package main

import (
	"os"
	"time"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		time.AfterFunc(3*time.Second, func() { os.Exit(1) })
	}
}
