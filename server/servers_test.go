package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestServersThatTell(t *testing.T) {
	var s servers
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	now := int64(1)
	step := func(d time.Duration) { now += int64(d) }
	place, told := s.find([]byte("a.example"), now)
	other, _ := s.find([]byte("b.example"), now)
	if told || place == other || place == 0 {
		t.Fatalf("places %d and %d, told %v", place, other, told)
	}
	said := func(want int) {
		t.Helper()
		if n := strings.Count(out.String(), "has not told"); n != want {
			t.Errorf("said %d times, want %d: %s", n, want, out.String())
		}
	}
	for range 100 {
		s.given(log, place, now)
	}
	said(0) // too soon: these may still be at work
	step(firstTime + 1)
	for range 100 {
		s.given(log, place, now)
	}
	said(1)
	if !strings.Contains(out.String(), "a.example") {
		t.Errorf("does not name the server: %s", out.String())
	}
	if n := s.mute(); n != 1 {
		t.Errorf("%d are mute", n)
	}
	s.ended(log, place, now)
	if _, told := s.find([]byte("a.example"), now); !told || s.mute() != 0 {
		t.Errorf("told %v, %d mute", told, s.mute())
	}

	// It stops telling: after enough leases over enough time it is mute again.
	for range muteLeases * 2 {
		s.given(log, place, now)
	}
	if _, told := s.find([]byte("a.example"), now); !told {
		t.Error("mute at once")
	}
	step(muteTime + 1)
	s.given(log, place, now)
	if _, told := s.find([]byte("a.example"), now); told {
		t.Error("still taken for one that tells")
	}
	s.given(log, place, now)
	said(2)

	s.ended(log, 0, now) // of no server, and of one that is not there
	s.ended(log, maxServers+1, now)
}

// There is room for so many; the others share a place.
func TestServersAreBounded(t *testing.T) {
	var s servers
	for i := range maxServers + 100 {
		place, _ := s.find(fmt.Appendf(nil, "s%d.example", i), 1)
		if want := min(i+1, maxServers); int(place) != want {
			t.Fatalf("server %d is at %d, want %d", i, place, want)
		}
	}
	if n := len(s.byName); n != maxServers {
		t.Errorf("%d names are remembered", n)
	}
}
