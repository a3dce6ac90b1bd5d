package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const second = int64(time.Second)

// scene is a gate and the clock that a test steps.
type scene struct {
	*testing.T
	g    *Gate
	now  int64
	next uint64
	ids  map[string]ID
	wait map[string]*Waiter
}

func play(t *testing.T, o Options) *scene {
	t.Helper()
	if o.Wait == 0 {
		o.Wait = 20 * time.Second
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &scene{T: t, g: g, now: second, ids: map[string]ID{}, wait: map[string]*Waiter{}}
}

// ask admits a request of that name, each from a caller of its own unless r says so.
func (s *scene) ask(name string, r Request, want Answer) {
	s.Helper()
	s.next++
	if _, ok := s.ids[name]; !ok {
		s.ids[name] = id(s.next)
	}
	r.ID = s.ids[name]
	if r.Caller == 0 {
		r.Caller = mix(s.next)
	}
	a, w := s.g.Admit(&r, s.now)
	if a != want {
		s.Errorf("%s is %v, want %v", name, a, want)
	}
	if (w != nil) != (a == Waiting) {
		s.Errorf("%s is %v, with the waiter %v", name, a, w)
	}
	if w != nil {
		s.wait[name] = w
	}
}

// cost asks as somebody who has a pass.
func (s *scene) cost(name string, cost int64, want Answer) {
	s.Helper()
	s.ask(name, Request{Lane: Proven, Cost: cost}, want)
}

func (s *scene) release(name string, want Release) {
	s.Helper()
	if _, r := s.g.Release(s.ids[name], s.now); r != want {
		s.Errorf("release of %s: %v, want %v", name, r, want)
	}
}

// still says what has become of those who wait: "b: admitted, c: waiting".
func (s *scene) still(want string) {
	s.Helper()
	var got []string
	for _, name := range strings.Split(want, ", ") {
		name, _, _ = strings.Cut(name, ":")
		got = append(got, fmt.Sprintf("%s: %v", name, s.wait[name].Answer()))
	}
	if got := strings.Join(got, ", "); got != want {
		s.Errorf("%s, want %s", got, want)
	}
}

func (s *scene) inFlight(want int64) {
	s.Helper()
	if got := s.g.Stats(s.now).InFlight; got != want {
		s.Errorf("%d in flight, want %d", got, want)
	}
}

func (s *scene) later(d time.Duration) {
	s.now += int64(d)
	s.g.Tick(s.now)
}

func TestFirstComeFirstServed(t *testing.T) {
	s := play(t, Options{Budget: 16, Queue: 32})
	s.cost("a", 10, Admitted)
	s.cost("b", 6, Admitted)
	s.cost("c", 8, Waiting)
	s.cost("d", 1, Waiting) // would fit beside a, but c was here before
	s.cost("e", 1, Waiting)
	s.release("b", Released)
	s.still("c: waiting, d: waiting, e: waiting")
	s.release("a", Released)
	s.still("c: admitted, d: admitted, e: admitted")
	s.inFlight(10)
}

func TestOversizeRunsAlone(t *testing.T) {
	s := play(t, Options{Budget: 16, Queue: 32})
	s.cost("large", 24, Admitted)
	s.cost("small", 1, Waiting)
	s.cost("larger", 1<<62, Waiting)
	s.cost("last", 1, Waiting)
	s.release("large", Released)
	s.still("small: admitted, larger: waiting, last: waiting")
	s.release("small", Released)
	s.still("larger: admitted, last: waiting")
	s.inFlight(MaxBudget)
	s.release("larger", Released)
	s.still("last: admitted")
	s.inFlight(1)
}

func TestFree(t *testing.T) {
	s := play(t, Options{Budget: 16, FreeBelow: 4, Queue: 32, PerCaller: 2})
	s.cost("a", 16, Admitted)
	s.cost("b", 4, Waiting)
	s.cost("free", 3, Admitted) // before b, and over the budget
	s.inFlight(19)
	s.release("a", Released)
	s.still("b: admitted")
	s.cost("c", 10, Waiting) // the free one counts

	mine := Request{Caller: 7, Lane: Proven, Cost: 3}
	s.ask("mine", mine, Admitted)
	s.ask("mine too", mine, Admitted)
	s.ask("mine as well", mine, Waiting) // one too many to be free
	s.ask("mine in turn", mine, Waiting)
	s.ask("mine for ever", mine, PerCaller)

	for i := range 2 { // 15 of the free ones' 16 are then taken
		s.cost(fmt.Sprint("another ", i), 3, Admitted)
	}
	s.cost("one too many", 3, Waiting)
}

// A stream of free requests does not keep the others waiting for ever.
func TestFreeOnesStarveNobody(t *testing.T) {
	s := play(t, Options{Budget: 16, FreeBelow: 4, Queue: 32})
	s.cost("free 0", 3, Admitted)
	s.cost("a", 8, Admitted)
	s.cost("large", 24, Waiting)
	for i := range 10 {
		s.cost(fmt.Sprint("free ", i+1), 3, Admitted)
		s.release(fmt.Sprint("free ", i), Released)
	}
	s.release("a", Released)
	s.still("large: admitted")
}

func TestQueueIsBounded(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 3})
	s.cost("a", 1, Admitted)
	s.cost("b", 1, Waiting)
	s.cost("c", 1, Waiting)
	s.ask("prefetch", Request{Lane: Proven, NoWait: true}, Busy)
	s.cost("d", 1, Waiting)
	s.cost("e", 1, Full)
	s.release("a", Released)
	s.cost("f", 1, Waiting)

	s = play(t, Options{Budget: 1})
	s.cost("a", 1, Admitted)
	s.cost("b", 1, Full)
}

func TestPerCaller(t *testing.T) {
	s := play(t, Options{Budget: 2, Queue: 32, PerCaller: 4})
	me := Request{Caller: 7, Lane: Proven}
	s.ask("a", me, Admitted)
	s.ask("b", me, Admitted)
	s.ask("c", me, Waiting)
	s.ask("d", me, Waiting)
	s.ask("e", me, PerCaller)
	s.cost("another's", 1, Waiting)
	s.release("a", Released)
	s.ask("e", me, Waiting)
	s.wait["d"].Leave(s.now)
	s.ask("f", me, Waiting)
	s.ask("g", me, PerCaller)
}

// 32 cheap addresses cannot fill a queue of 32 against visitors with passes.
func TestStrangersHoldHalf(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 32, OperatorPlace: true})
	s.ask("first", Request{}, Admitted)
	for i := range 16 {
		s.ask(fmt.Sprint("stranger ", i), Request{}, Waiting)
	}
	s.ask("stranger", Request{}, Strangers)
	for i := range 16 {
		s.cost(fmt.Sprint("pass ", i), 1, Waiting)
	}
	s.cost("pass", 1, Full)
	s.ask("stranger", Request{}, Full)
	s.ask("operator", Request{Lane: Operator}, Waiting)
	s.ask("operator again", Request{Lane: Operator}, Full)
	s.release("first", Released)
	s.still("stranger 0: admitted, stranger 1: waiting, operator: waiting")
	s.ask("stranger", Request{}, Full) // 32 wait, and one is the operator
	s.release("stranger 0", Released)
	s.ask("stranger", Request{}, Waiting)
	s.ask("stranger again", Request{}, Full)

	s = play(t, Options{Budget: 1, Queue: 1})
	s.ask("a", Request{}, Admitted)
	s.ask("b", Request{}, Waiting) // half of one is one
}

func TestWaitIsLimited(t *testing.T) {
	s := play(t, Options{Budget: 4, Queue: 8})
	s.cost("a", 1, Admitted)
	s.cost("large", 4, Waiting)
	s.later(5 * time.Second)
	s.cost("small", 1, Waiting)
	s.later(15*time.Second - 1)
	s.still("large: waiting, small: waiting")
	s.later(1)
	s.still("large: elapsed, small: admitted") // what the head held back goes at once
	if w := s.wait["large"].Waited(); w != 20*time.Second {
		t.Errorf("large waited %v, want 20s", w)
	}
	if w := s.wait["small"].Waited(); w != 15*time.Second {
		t.Errorf("small waited %v, want 15s", w)
	}
}

func TestLeaseEndsByItself(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 8, Wait: time.Hour})
	s.cost("a", 1, Admitted)
	s.ask("b", Request{Lease: 2 * time.Second}, Waiting)
	s.ask("c", Request{Lease: 2 * time.Hour}, Waiting)
	s.ask("d", Request{Hold: true}, Waiting)
	s.ask("e", Request{}, Waiting)
	s.later(time.Minute + 17*time.Millisecond)
	s.still("b: admitted, c: waiting")
	s.release("a", Late) // the line comes, and teaches
	s.release("a", Unknown)
	s.later(2*time.Second + 17*time.Millisecond)
	s.still("c: admitted, d: waiting")
	s.later(time.Minute + 17*time.Millisecond) // not two hours
	s.still("d: admitted, e: waiting")
	s.later(59 * time.Minute)
	s.still("e: elapsed")
	s.release("d", Released)
	if left, ok := s.g.Tick(s.now); ok && left < 10*365*24*time.Hour {
		t.Errorf("something is due in %v, but nothing is left", left)
	}
	if c := s.g.Stats(s.now).Counts; c.Expired != 3 || c.Late != 1 || c.Unknown != 1 || c.Released != 1 {
		t.Errorf("%+v", c)
	}
}

// The memory for leases that ended by themselves is bounded: the oldest are forgotten.
func TestLateOnesAreForgotten(t *testing.T) {
	s := play(t, Options{Budget: 10 * lateKept, Lease: time.Second})
	for i := range lateKept + 10 {
		s.cost(fmt.Sprint(i), 1, Admitted)
		s.later(20 * time.Millisecond)
	}
	s.later(time.Minute)
	s.release("9", Unknown)
	s.release("10", Late)
	s.release(fmt.Sprint(lateKept+9), Late)
}

// However many requests are admitted and vanish, there are no more leases than allowed.
func TestLeasesAreBounded(t *testing.T) {
	s := play(t, Options{Budget: 1 << 40, Queue: 1, Leases: 100})
	for i := range 100 {
		s.cost(fmt.Sprint(i), 1, Admitted)
	}
	s.cost("a", 1, Waiting)
	s.cost("b", 1, Full)
	s.later(18 * time.Second)
	s.release("5", Released)
	s.still("a: admitted")
	s.later(2 * time.Minute)
	s.inFlight(0)
}

// nginx asks again for the same request (index, try_files, error_page): C006.
func TestOneIDOneLease(t *testing.T) {
	s := play(t, Options{Budget: 2, Queue: 4, PerCaller: 1})
	me := Request{Caller: 7, Lane: Proven, Cost: 2}
	s.ask("a", me, Admitted)
	s.ask("a", me, Admitted)
	s.inFlight(2)
	s.cost("b", 1, Waiting)
	first := s.wait["b"]
	s.cost("b", 1, Waiting)
	if first.Leave(s.now) != Left {
		t.Error("the first call has not left")
	}
	s.still("b: waiting") // the second call still waits in the same place
	s.release("a", Released)
	s.still("b: admitted")
	s.inFlight(1)
	s.release("b", Released)
	s.release("b", Unknown)
	s.inFlight(0)

	// It may also ask again after its lease has ended, and then needs another.
	s.ask("a", me, Admitted)
	s.later(2 * time.Minute)
	s.inFlight(0)
	s.ask("a", me, Admitted)
	s.inFlight(2)
	s.release("a", Released)
	s.inFlight(0)
}

// Requests without an id are not one request.
func TestNoID(t *testing.T) {
	s := play(t, Options{Budget: 2, Queue: 4})
	for range 2 {
		if a, _ := s.g.Admit(&Request{Hold: true}, s.now); a != Admitted {
			t.Errorf("%v, want admitted", a)
		}
	}
	s.inFlight(2)
	if _, r := s.g.Release(ID{}, s.now); r != Unknown {
		t.Errorf("a request without an id was released: %v", r)
	}
	s.inFlight(2)
	s.later(2 * time.Minute)
	s.inFlight(0)
}

// 200 clients wait and go away: C019. Then a patient one is admitted at once.
func TestWaitersLeave(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 200})
	s.cost("a", 1, Admitted)
	for i := range 200 {
		s.cost(fmt.Sprint(i), 1, Waiting)
	}
	for i := range 200 {
		w := s.wait[fmt.Sprint(i)]
		if a := w.Leave(s.now); a != Left {
			t.Fatalf("%d: %v, want left", i, a)
		}
		if a := w.Leave(s.now); a != Left {
			t.Fatalf("%d, once more: %v, want left", i, a)
		}
	}
	if s.g.Stats(s.now).Waiting != 0 {
		t.Error("the queue is not empty")
	}
	s.release("a", Released)
	s.cost("patient", 1, Admitted)
}

// 1000 waiters, 500 go away: C146. The others go in order, never more than fit.
func TestGapsInTheQueue(t *testing.T) {
	s := play(t, Options{Budget: 4, Queue: 1000, Wait: time.Hour})
	for i := range 4 {
		s.cost(fmt.Sprint(i), 1, Admitted)
	}
	for i := 4; i < 1004; i++ {
		s.cost(fmt.Sprint(i), 1, Waiting)
	}
	for i := 4; i < 1004; i += 2 {
		s.wait[fmt.Sprint(i)].Leave(s.now)
	}
	s.inFlight(4)
	for i := range 4 {
		s.release(fmt.Sprint(i), Released)
	}
	for i := 5; i < 1004; i += 2 {
		s.still(fmt.Sprint(i, ": admitted"))
		if i+8 < 1004 {
			s.still(fmt.Sprint(i+8, ": waiting"))
		}
		s.inFlight(min(4, int64(1004-i+1)/2))
		s.release(fmt.Sprint(i), Released)
	}
	s.inFlight(0)
}

// Who was admitted and is not there any more gives the lease back.
func TestLeaveAfterAdmission(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 8})
	s.cost("a", 1, Admitted)
	s.cost("b", 1, Waiting)
	s.cost("c", 1, Waiting)
	s.cost("d", 1, Waiting)
	s.release("a", Released)
	if a := s.wait["b"].Leave(s.now); a != Admitted {
		t.Errorf("b: %v, want admitted", a)
	}
	s.still("c: admitted, d: waiting")
	s.release("b", Unknown)

	// But not the lease of another, whose memory may be the same.
	s.release("c", Released)
	s.still("d: admitted")
	s.cost("e", 1, Waiting)
	s.wait["c"].Leave(s.now)
	s.wait["b"].Leave(s.now)
	s.inFlight(1)
	s.still("d: admitted, e: waiting")

	// Nor one that another call with the same id has been told of.
	s.release("d", Released)
	s.still("e: admitted")
	s.cost("e", 1, Admitted)
	s.inFlight(1)
	s.wait["e"].Leave(s.now)
	s.inFlight(1)
}

// nginx writes a line for a request whose client went away while it waited.
func TestReleaseOfAWaiter(t *testing.T) {
	s := play(t, Options{Budget: 4, Queue: 8})
	s.cost("a", 1, Admitted)
	s.cost("b", 4, Waiting)
	s.cost("c", 1, Waiting)
	s.release("b", Unqueued)
	s.still("b: left, c: admitted")
	s.release("b", Unknown)
}

func TestReload(t *testing.T) {
	o := Options{Budget: 4, Queue: 8, Wait: 20 * time.Second, Lease: time.Minute}
	s := play(t, o)
	set := func(change func(*Options)) {
		t.Helper()
		change(&o)
		if err := s.g.Set(o, s.now); err != nil {
			t.Error(err)
		}
	}
	s.cost("a", 4, Admitted)
	s.cost("b", 4, Waiting)
	s.cost("c", 4, Waiting)
	s.cost("d", 4, Waiting)
	set(func(o *Options) { o.Budget = 8 })
	s.still("b: admitted, c: waiting")
	set(func(o *Options) { o.Budget, o.Queue = 2, 1 })
	s.inFlight(8)
	s.release("a", Released)
	s.still("c: waiting, d: waiting")
	s.cost("e", 1, Full)
	s.release("b", Released) // c is oversize now
	s.still("c: admitted, d: waiting")
	s.later(5 * time.Second)
	set(func(o *Options) { o.Wait = 4 * time.Second })
	s.still("d: elapsed")
	set(func(o *Options) { o.Queue, o.Leases = 5000, 10_000 }) // more than there was memory for
	for i := range 5000 {
		s.cost(fmt.Sprint(i), 1, Waiting)
	}
	if err := s.g.Set(Options{}, s.now); err == nil {
		t.Error("options without a budget were taken")
	}
	if n := s.g.Stats(s.now).Budget; n != 2 {
		t.Errorf("budget is %d, want 2", n)
	}
}

func TestClose(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 8})
	s.cost("a", 1, Admitted)
	s.cost("b", 1, Waiting)
	s.g.Close(s.now)
	s.still("b: closed")
	s.cost("c", 1, Closed)
	s.cost("a", 1, Admitted) // the same request gets the same answer
	s.release("a", Released)
	s.cost("c", 1, Closed)
	s.inFlight(0)
}

func TestReleaseAny(t *testing.T) {
	a, b := play(t, Options{Budget: 1, Queue: 1}), play(t, Options{Budget: 1, Queue: 1})
	gates := []*Gate{a.g, b.g}
	b.ask("x", Request{Note: Note{Path: 1, Host: 2, Rule: 3}}, Admitted)
	if g, n, r := ReleaseAny(gates, b.ids["x"], 0, second); g != b.g || n != (Note{1, 2, 3}) || r != Released {
		t.Errorf("%p %v %v, want %p {1 2 3} released", g, n, r, b.g)
	}
	if g, _, r := ReleaseAny(gates, b.ids["x"], 0, second); g != nil || r != Unknown {
		t.Errorf("%p %v, want nil and unknown", g, r)
	}
	// After an internal redirect one request may hold a lease in two gates.
	a.ids["x"] = b.ids["x"]
	a.ask("x", Request{}, Admitted)
	b.ask("x", Request{}, Admitted)
	ReleaseAny(gates, a.ids["x"], 0, second)
	a.inFlight(0)
	b.inFlight(0)
	if n := a.g.Stats(second).Unknown + b.g.Stats(second).Unknown; n != 0 {
		t.Errorf("%d were unknown, want 0", n)
	}
}

// A step back neither ends leases nor makes anybody wait longer; one forward ends them.
func TestClockSteps(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 8})
	s.now += 100 * 24 * 3600 * second
	s.cost("a", 1, Admitted)
	s.later(10 * time.Second)
	s.cost("b", 1, Waiting)
	s.later(-24 * time.Hour)
	s.still("b: waiting")
	s.later(19 * time.Second)
	s.still("b: waiting")
	s.inFlight(1)
	s.later(2 * time.Second)
	s.still("b: elapsed")
	s.cost("c", 1, Waiting)
	s.later(19 * time.Second)
	s.inFlight(1)
	s.now -= 2 * second // somebody who read the clock and was slow to come
	s.cost("d", 1, Waiting)
	s.later(2 * time.Second)
	s.later(900 * time.Millisecond)
	s.still("c: waiting")
	s.later(200 * time.Millisecond)
	s.still("c: elapsed, d: waiting")
	s.later(10 * time.Second)
	s.still("d: admitted") // a's minute is over
	s.later(24 * time.Hour)
	s.inFlight(0)
}

func TestOptions(t *testing.T) {
	good := Options{Budget: 1, Queue: 1, Wait: 1, Lease: 1}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	f := func(want string, change func(*Options)) {
		t.Helper()
		o := good
		change(&o)
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f("budget is 0: want 1 to 2^60", func(o *Options) { o.Budget = 0 })
	f("budget is", func(o *Options) { o.Budget = MaxBudget + 1 })
	f("free_below is 2: want at most the budget", func(o *Options) { o.FreeBelow = 2 })
	f("free_below is -1", func(o *Options) { o.FreeBelow = -1 })
	f("queue is -1", func(o *Options) { o.Queue = -1 })
	f("queue is", func(o *Options) { o.Queue = maxPlaces + 1 })
	f("per_caller is -1", func(o *Options) { o.PerCaller = -1 })
	f("wait is 0s: want more than 0", func(o *Options) { o.Wait = 0 })
	f("wait is 25h0m0s", func(o *Options) { o.Wait = 25 * time.Hour })
	f("lease is 0s", func(o *Options) { o.Lease = 0 })
	f("leases is -1", func(o *Options) { o.Leases = -1 })
	f("lease is 0s", func(o *Options) { *o = Options{} }) // all at once
	f("budget is 0", func(o *Options) { *o = Options{} })
}

func TestAnswerNames(t *testing.T) {
	seen := map[string]bool{}
	for a := range Answers {
		if s := a.String(); s == "" || seen[s] {
			t.Errorf("answer %d is called %q", a, s)
		} else {
			seen[s] = true
		}
	}
	if s := (Answers + 1).String(); s != "unknown" {
		t.Errorf("%q, want unknown", s)
	}
}

// A lease whose backend has been cut off ends within a second: never later than before,
// and only once.
func TestCut(t *testing.T) {
	s := play(t, Options{Budget: 1, Queue: 8, Wait: time.Hour})
	s.ask("a", Request{Note: Note{Host: 5}}, Admitted)
	s.cost("b", 1, Waiting)
	s.ask("c", Request{Lane: Proven, Lease: 500 * time.Millisecond}, Waiting)
	cut := func(name string, want bool) {
		t.Helper()
		if _, known := CutAny([]*Gate{s.g}, s.ids[name], s.now); known != want {
			t.Errorf("%s is known: %v, want %v", name, known, want)
		}
	}
	if n, known := CutAny([]*Gate{s.g}, s.ids["a"], s.now); !known || n.Host != 5 {
		t.Errorf("%v %v", n, known)
	}
	cut("b", true) // it waits, and goes on waiting
	s.later(900 * time.Millisecond)
	s.still("b: waiting")
	cut("a", true)
	s.later(117 * time.Millisecond)
	s.still("b: admitted, c: waiting")
	s.release("a", Late)
	s.release("b", Released)
	s.still("c: admitted")
	cut("c", true) // it ends earlier by itself
	s.later(517 * time.Millisecond)
	s.inFlight(0)
	cut("c", true)
	s.release("c", Late)
	cut("c", false)
	if c := s.g.Stats(s.now).Counts; c.Expired != 2 || c.Released != 1 {
		t.Errorf("%+v", c)
	}
}

// Beside a batch job that lasts, who cannot fit is refused at once and keeps nobody
// waiting; beside one that has just begun, it waits its turn.
func TestHeld(t *testing.T) {
	s := play(t, Options{Budget: 16, Queue: 8, Wait: 20 * time.Second})
	s.ask("job", Request{Hold: true, Cost: 12}, Admitted)
	s.later(time.Second)
	s.cost("large", 8, Waiting)
	s.cost("small", 2, Waiting)
	s.later(20*time.Second + 17*time.Millisecond)
	s.still("large: elapsed, small: admitted")
	s.cost("large again", 8, Held)
	s.cost("oversize", 25, Held)
	s.cost("small again", 2, Admitted)
	s.ask("another job", Request{Hold: true, Cost: 12}, Waiting)
	s.release("job", Released)
	s.still("another job: admitted")
	s.release("another job", Released)
	s.cost("large at last", 8, Admitted)
	if s.g.heldCost != 0 {
		t.Errorf("%d are held", s.g.heldCost)
	}
}

// A lease ends early by what its request is expected to take: not while the backend is
// slower than expected, and not soon while nothing is released at all.
func TestLeaseOfASlowBackend(t *testing.T) {
	s := play(t, Options{Budget: 3, Queue: 8, Wait: time.Hour, Lease: time.Minute})
	quick := func(name string, want Answer) {
		t.Helper()
		s.ask(name, Request{Lane: Proven, Expected: 500 * time.Millisecond}, want)
	}
	release := func(name string, took time.Duration, want Release) {
		t.Helper()
		if _, r := s.g.release(&ID{}, 0, s.now, 0); r != Unknown {
			t.Errorf("%v", r)
		}
		x := s.ids[name]
		if _, r := s.g.release(&x, took, s.now, 1); r != want {
			t.Errorf("release of %s: %v, want %v", name, r, want)
		}
	}
	// As quick as expected: three times that, and the line of c was lost.
	for _, name := range []string{"a", "b", "c"} {
		quick(name, Admitted)
	}
	s.later(400 * time.Millisecond)
	release("a", 400*time.Millisecond, Released)
	release("b", 400*time.Millisecond, Released)
	s.inFlight(1)
	s.later(1117 * time.Millisecond)
	s.inFlight(0)

	// The backend stands still: each round of three waits twice as long.
	for _, name := range []string{"d", "e", "f"} {
		quick(name, Admitted)
	}
	for _, name := range []string{"g", "h", "i", "j"} {
		quick(name, Waiting)
	}
	s.later(1517 * time.Millisecond)
	s.still("g: admitted, h: admitted, i: admitted, j: waiting")
	s.later(2900 * time.Millisecond)
	s.still("j: waiting")
	s.later(117 * time.Millisecond)
	s.still("j: admitted")
	// It was only slow, by twenty times: so are the others.
	s.later(10 * time.Millisecond)
	release("d", 10*time.Second, Late)
	quick("k", Admitted)
	quick("l", Admitted)
	quick("m", Waiting)
	s.later(29 * time.Second)
	s.still("m: waiting")
	s.later(1017 * time.Millisecond)
	s.still("m: admitted")
	// It takes a while to be trusted again.
	for range 40 {
		quick("again", Admitted)
		release("again", 500*time.Millisecond, Released)
		delete(s.ids, "again")
	}
	release("m", 500*time.Millisecond, Released)
	quick("n", Admitted)
	s.later(100 * time.Millisecond)
	quick("o", Admitted)
	release("o", 500*time.Millisecond, Released)
	s.later(1700 * time.Millisecond)
	s.inFlight(0)
}
