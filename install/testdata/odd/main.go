// Command odd is a release with a fault, for the tests of deploy.sh. Otherwise it is stile.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Set by the linker.
var (
	fault   string // "version", "start", "dies" or "keys"
	version string // what it says it is
)

func main() {
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	switch {
	case verb == "version" && fault == "version":
		fmt.Fprintln(os.Stderr, "cannot tell")
		os.Exit(1)
	case verb == "version" && version != "":
		fmt.Println("stile", version)
		return
	case verb == "check" && fault == "keys": // it knows every key
		return
	case verb == "serve" && fault == "start":
		fmt.Fprintln(os.Stderr, "cannot start")
		os.Exit(1)
	case verb == "serve" && fault == "dies":
		// The daemon, with this process's id, so that it is the one that systemd knows.
		bomb := exec.Command("/bin/sh", "-c", fmt.Sprintf("exec 3<&- 4<&- 5<&-; sleep 3; kill -9 %d", os.Getpid()))
		if err := bomb.Start(); err != nil {
			panic(err)
		}
	}
	panic(syscall.Exec("/srv/release/stile", append([]string{"stile"}, os.Args[1:]...), os.Environ()))
}
