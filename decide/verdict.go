package decide

import "strconv"

// Action is what becomes of a request.
type Action uint8

const (
	Allow     Action = iota // 200: go on
	Challenge               // 401: prove first
	Refuse                  // 429: not now
	actions
)

var actionNames = [actions]string{"allow", "challenge", "refuse"}

func (a Action) String() string { return actionNames[a] }

// Reason is why: each early return of the decision has its own, so that the
// counters by reason add up to the requests.
type Reason uint8

const (
	NoRule     Reason = iota // nothing matched: allow
	Rule                     // an allow rule
	Metered                  // within every meter of its rule
	Repeat                   // same request id as a moment ago, see Verdict.Again
	Misconfig                // nginx did not say what was asked or by whom: the site stays up
	Malformed                // a target that nginx would not have let through
	Jail                     // the caller's network is in the jail
	Deny                     // a deny rule
	Trap                     // a trap rule
	Surge                    // not proven, while the site is in surge
	Demand                   // a challenge rule
	Suspicion                // points of suspicion ask for a level
	Heavy                    // a heavy hitter under pressure
	Meter                    // over the caller's limit
	Wide                     // over the limit of the network around the caller
	Collective               // over what all strangers together may have
	Gate                     // the gate is full, or its wait has elapsed; or it asks for a pass
	Closed                   // the gate was closed while it waited: the daemon stops, or a reload took it away
	Crawler                  // it says it is a crawler, and a rule has to know whether it is: that is being looked up
	Panic                    // a fault of ours, refused
	Reasons                  // how many there are
)

var reasonNames = [Reasons]string{
	"no-rule", "rule", "metered", "repeat", "misconfigured", "malformed", "jail", "deny", "trap", "surge",
	"demand", "suspicion", "heavy", "meter", "wide", "collective", "gate", "closed", "crawler", "panic",
}

func (r Reason) String() string { return reasonNames[r] }

// Verdict is the answer to one request.
type Verdict struct {
	Action Action
	Reason Reason
	Level  uint8  // of a challenge, and of a refusal in the place of one: what a pass must be worth
	Unsafe bool   // refused, but a proof made in another tab would help
	Again  bool   // nginx asked again about one request of the client: the first answer, uncharged
	meter  int16  // index into the policy's meters plus one of the one that said no, 0: none
	Retry  uint32 // of a refusal: seconds until it may be worth trying again
	rule   int16  // index into the policy's rules plus one, 0: none
	gated  int16  // the same of the one whose gate is owed
	policy uint8  // generation of the policy that rule belongs to
}

// AppendToken appends the verdict as it travels in a header, such as
// "challenge;level=2;rule=NAME". The form is read back by ParseToken.
func (v Verdict) AppendToken(dst []byte, rule string) []byte {
	dst = append(dst, actionNames[v.Action]...)
	switch v.Action {
	case Challenge:
		dst = append(dst, ";level="...)
		dst = append(dst, '0'+v.Level)
		dst = append(dst, ";reason="...)
		dst = append(dst, reasonNames[v.Reason]...)
	case Refuse:
		dst = append(dst, ";reason="...)
		dst = append(dst, reasonNames[v.Reason]...)
		if v.Unsafe {
			dst = append(dst, ";level="...)
			dst = append(dst, '0'+v.Level)
		}
		if v.Retry > 0 {
			dst = append(dst, ";retry="...)
			dst = strconv.AppendUint(dst, uint64(v.Retry), 10)
		}
	}
	if rule != "" {
		dst = append(dst, ";rule="...)
		dst = append(dst, rule...)
	}
	return dst
}

// ParseToken reads a verdict that AppendToken wrote. nginx hands it back to us in the
// named locations; ok is false for anything else, which then is not our verdict.
func ParseToken(s string) (v Verdict, rule string, ok bool) {
	word, rest := cut(s, ';')
	found := false
	for a, name := range actionNames {
		if word == name {
			v.Action, found = Action(a), true
		}
	}
	if !found {
		return Verdict{}, "", false
	}
	for rest != "" {
		if len(rest) > 5 && rest[:5] == "rule=" { // last, and may contain anything
			return v, rest[5:], true
		}
		word, rest = cut(rest, ';')
		k, val := cut(word, '=')
		switch k {
		case "level":
			if len(val) != 1 || val[0] < '1' || val[0] > '3' {
				return Verdict{}, "", false
			}
			v.Level = val[0] - '0'
			v.Unsafe = v.Action == Refuse
		case "retry":
			n, err := strconv.ParseUint(val, 10, 32)
			if err != nil {
				return Verdict{}, "", false
			}
			v.Retry = uint32(n)
		case "reason":
			r := reasonOf(val)
			if r == Reasons {
				return Verdict{}, "", false
			}
			v.Reason = r
		default:
			return Verdict{}, "", false
		}
	}
	return v, "", true
}

func reasonOf(s string) Reason {
	for r, name := range reasonNames {
		if s == name {
			return Reason(r)
		}
	}
	return Reasons
}

func cut(s string, sep byte) (before, after string) {
	for i := 0; i < len(s); i++ {
		if s[i] == sep {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
