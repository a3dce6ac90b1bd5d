// Package systemd is the daemon's side of its units: the sockets that stile.socket
// holds for it, and what it tells systemd about itself.
package systemd

import (
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Service is what systemd has given this process. The zero value is a process that it
// has given nothing: it has no sockets, and telling it anything does nothing. Its methods
// may be called concurrently, but for those that hand out sockets.
type Service struct {
	// Watchdog is after how long without Alive the process is ended; 0: never.
	Watchdog time.Duration

	sockets []*socket
}

// FromEnvironment takes what systemd has given: once, and before anything else opens
// files. It is an error if a socket among it is of no kind that is known.
func FromEnvironment() (*Service, error) {
	s := new(Service)
	var err error
	if s.Watchdog, err = daemon.SdWatchdogEnabled(true); err != nil {
		return nil, err
	}
	if s.sockets, err = handedOver(); err != nil {
		return nil, err
	}
	return s, nil
}

// Ready tells that the service is up, or up again after Reloading. status is a line for
// `systemctl status`.
func (s *Service) Ready(status string) { tell(daemon.SdNotifyReady, "STATUS="+line(status)) }

// Reloading tells that the configuration is being read again. Ready ends it.
func (s *Service) Reloading() {
	tell(daemon.SdNotifyReloading, strings.TrimSuffix(daemon.SdNotifyMonotonicUsec(), "\n"))
}

// Stopping tells that the service ends.
func (s *Service) Stopping() { tell(daemon.SdNotifyStopping) }

// Alive puts the watchdog off.
func (s *Service) Alive() { tell(daemon.SdNotifyWatchdog) }

// tell sends assignments, where there is somebody to tell. That it could not be sent is
// no fault of the daemon's, which goes on: systemd itself will say that it heard nothing.
func tell(assignments ...string) {
	_, _ = daemon.SdNotify(false, strings.Join(assignments, "\n"))
}

// line keeps a status on one line: the next would be an assignment of its own.
func line(s string) string { return strings.Map(func(r rune) rune { return max(r, ' ') }, s) }
