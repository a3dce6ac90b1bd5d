package botauth

// Result is how the check of a request ended. All but Good and Known are errors.
type Result uint8

const (
	Good        Result = iota // verified
	Known                     // verified, by what was verified a moment ago
	Unsigned                  // no signature for Web Bot Auth; not counted
	Malformed                 // the fields are not structured fields of the shapes that RFC 9421 gives
	Oversized                 // longer, or of more parts, than any agent needs
	Duplicate                 // a label, a parameter or a component twice
	Several                   // more than one signature by keys that are known: whose request is it?
	UnknownKey                // by a key of no agent that is listed
	Algorithm                 // of another algorithm than Ed25519
	Times                     // without created or expires, or valid for too long
	Future                    // created later than now
	Expired                   // expired, or its key has
	Missing                   // it does not cover what it must, or covers what the request does not have
	Unsupported               // it covers what nginx does not tell, so that nobody here can verify it
	Elsewhere                 // for a host that is not known to be this site's
	OtherAgent                // Signature-Agent names somebody else than the key's owner
	Wrong                     // the signature does not fit the request
	Limited                   // not looked at: too many wrong ones lately
	Results
)

var resultNames = [Results]string{
	"good", "known", "unsigned", "malformed", "oversized", "duplicate", "several", "unknown_key", "algorithm", "times", "future",
	"expired", "missing", "unsupported", "elsewhere", "other_agent", "wrong", "limited",
}

func (r Result) String() string { return resultNames[r] }

var resultTexts = [Results]string{
	"", "",
	"there is no signature with the tag web-bot-auth",
	"the fields of the signature are malformed",
	"the fields of the signature are longer than 4096 bytes or have too many parts",
	"a label, a parameter or a component is there twice",
	"there are several signatures of agents that are listed",
	"its key is of no agent that is listed",
	"its algorithm is not ed25519",
	"it has no created or expires, or holds for more than a day",
	"it was created later than now",
	"it has expired, or its key has",
	"it does not cover @authority or signature-agent, or covers a field that is not there",
	"it covers a component that nginx does not tell: it can be neither verified nor refuted",
	"it is for a host that is not known to be this site's: name it in [crawler] hosts",
	"Signature-Agent names another agent than its key's",
	"the signature does not fit the request",
	"there were too many wrong signatures lately: this one was not looked at",
}

// Error says why a signature was not accepted.
func (r Result) Error() string { return "web bot auth: " + resultTexts[r] }
