package config

// What the format knows: its keys, what it refuses and why, and its bounds.

const (
	maxBytes  = 1 << 20 // of one file
	maxFiles  = 64      // of one configuration, presets included
	maxTables = 4096    // [[rule]]s or [[expect]]s, of one file and of all
	maxMeters = 256     // each has tables of [state] keys entries
	maxGates  = 64
	maxBots   = 64
	maxItems  = 16384 // of one list: the published ranges of a large cloud fit
	maxLimit  = 10_000_000
)

var matchers = []string{"host", "path", "query", "method", "agent", "header", "network", "crawler", "asn", "country"}

// kinds are the tables in the order of the example file.
var kinds = []string{"", "listen", "key", "pass", "state", "challenge", "crawler", "geo", "bot", "meter", "gate", "rule", "not", "expect"}

// known are the keys of each kind of table; "" is the top of a file.
var known = map[string][]string{
	"":          {"mode", "include", "listen", "key", "pass", "state", "challenge", "crawler", "geo", "bot", "meter", "gate", "rule", "expect"},
	"listen":    {"check", "lease", "admin", "group"},
	"key":       {"file"},
	"pass":      {"cookie", "lifetime", "bind", "per_network_day"},
	"state":     {"dir", "keys"},
	"challenge": {"kind", "status", "target", "title", "logo", "contact"},
	"crawler":   {"resolver", "max_age", "urls", "hosts"},
	"geo":       {"file"},
	"bot":       {"name", "directory", "keys"},
	"meter":     {"name", "window", "stranger", "pass", "user", "strangers", "per"},
	"gate":      {"name", "budget", "free_below", "queue", "per_caller", "wait", "lease", "cost", "unseen", "scale"},
	"rule":      append([]string{"name", "do", "suspect", "meter", "gate", "level", "proof", "mode", "not"}, matchers...),
	"not":       matchers,
	"expect":    {"request", "host", "agent", "addr", "header", "crawler", "asn", "country", "verdict"},
}

// included are the keys that files other than the main one may have.
var included = []string{"include", "meter", "gate", "rule", "expect"}

const (
	noCaptchas = `this version of stile asks for work only: kind = "pow"; remove it`
)

// refused are keys that a reader of stile's plans, or of other programs' manuals,
// may expect, each with the reason why it is not there.
var refused = map[string]map[string]string{
	"": {
		"operator":  `this version of stile has no operator's lane yet; remove it, or write a rule with network and do = "allow"`,
		"turnstile": noCaptchas,
		"hcaptcha":  noCaptchas,
		"captcha":   noCaptchas,
		"surge":     "this version of stile has no surge mode yet; remove it",
		"jail":      "this version of stile has no jail yet; remove it",
		"replica":   "this version of stile runs on one machine; remove it",
		"valkey":    "this version of stile runs on one machine; remove it",
		"redis":     "this version of stile runs on one machine; remove it",
	},
	"pass": {
		"domain":      "the pass belongs to the host that set it; remove it",
		"path":        "the pass is always for the whole site; remove it",
		"secure":      "the pass is Secure whenever nginx says https; remove it",
		"samesite":    "the pass is always SameSite=Lax; remove it",
		"httponly":    "the pass is always HttpOnly; remove it",
		"partitioned": "a partitioned cookie would have to be Secure, and a pass must work over plain http; remove it",
	},
	"challenge": {
		"secret":  noCaptchas,
		"sitekey": noCaptchas,
		"bits":    "the difficulty finds itself from target; remove it",
	},
	"rule": {
		"match":  `the matchers are keys of the rule itself, such as path = "/search/**"; write them there`,
		"status": "refusals are answered 429 or 403, and the page with the status of [challenge]; remove it",
	},
	"not": {
		"not": "a not within a not: write the matchers in the rule itself",
	},
}

// otherWords are what other programs call things.
var otherWords = map[string]string{
	// keys
	"action": "do", "verdict": "do", "then": "do", "limit": "stranger", "rate": "stranger", "requests": "stranger",
	"period": "window", "interval": "window", "per_minute": "stranger", "ttl": "lifetime", "expires": "lifetime",
	"max_age": "lifetime", "uri": "path", "url": "path", "location": "path", "paths": "path", "user_agent": "agent",
	"useragent": "agent", "user-agent": "agent", "ua": "agent", "ip": "network", "cidr": "network", "address": "network",
	"addresses": "network", "remote_addr": "network", "net": "network", "args": "query", "domain": "host",
	"server_name": "host", "except": "not", "unless": "not", "points": "suspect", "score": "suspect", "meters": "meter",
	"difficulty": "target", "title_text": "title", "email": "contact", "picture": "logo", "image": "logo",
	"socket": "check", "metrics": "admin", "directory": "dir", "size": "keys", "includes": "include", "presets": "include",
	"status_code": "status", "code": "status", "result": "verdict", "type": "kind",
	"concurrency": "budget", "max_conns": "budget", "concurrent": "budget", "in_flight": "budget", "inflight": "budget",
	"capacity": "budget", "timeout": "wait", "max_wait": "wait", "backlog": "queue", "weight": "cost", "factor": "scale",
	"multiplier": "scale", "semaphore": "gate", "limit_conn": "gate", "syslog": "lease", "access_log": "lease",
	// values
	"block": "deny", "reject": "deny", "refuse": "deny", "drop": "deny", "forbid": "deny", "ban": "deny",
	"throttle": "meter", "ratelimit": "meter", "rate-limit": "meter", "count": "meter", "weigh": "meter",
	"accept": "allow", "permit": "allow", "skip": "allow", "pass": "allow", "bypass": "allow",
	"prove": "challenge", "captcha": "challenge", "pow": "challenge", "tarpit": "trap", "honeypot": "trap",
	"on": "enforce", "off": "observe", "dry-run": "observe", "dryrun": "observe", "report": "observe", "log": "observe",
	"always": "auto",
}

// otherWordsOf are words that mean something else in one kind of table.
var otherWordsOf = map[string]map[string]string{
	"bot": {
		"url": "directory", "uri": "directory", "origin": "directory", "signature_agent": "directory", "signature-agent": "directory",
		"host": "directory", "key": "keys", "jwk": "keys", "jwks": "keys", "agent": "name",
	},
	"gate": {
		"limit": "budget", "max": "budget", "size": "budget", "requests": "budget", "slots": "budget", "permits": "budget",
		"ttl": "lease", "expires": "lease", "max_age": "lease", "lifetime": "lease", "places": "queue", "burst": "queue",
		"queue_length": "queue", "caller": "per_caller", "per_client": "per_caller", "per_ip": "per_caller", "default": "unseen",
		"unknown": "unseen", "free": "free_below", "min": "free_below", "minimum": "free_below", "stranger": "per_caller",
	},
}

// exampleOf is a value that a key could have.
func exampleOf(key string) string {
	switch key {
	case "mode":
		return "observe"
	case "include":
		return "preset:generic"
	case "check":
		return "unix:/run/stile/stile.sock"
	case "admin":
		return "127.0.0.1:9406"
	case "lease":
		return "unix:/run/stile/lease.sock"
	case "group":
		return "www-data"
	case "file":
		return "/var/lib/stile/key"
	case "dir":
		return "/var/lib/stile"
	case "name":
		return "search"
	case "cookie":
		return "stile"
	case "bind":
		return "roam"
	case "kind":
		return "pow"
	case "logo":
		return "/logo.svg"
	case "contact":
		return "Trouble? webmaster@example.org"
	case "per":
		return "caller"
	case "meter":
		return "pages"
	case "gate":
		return "expensive"
	case "do":
		return "meter"
	case "proof":
		return "never"
	case "host":
		return "www.example.org"
	case "path":
		return "/search/**"
	case "query":
		return "q"
	case "method":
		return "GET"
	case "agent":
		return "Wget"
	case "network", "addr":
		return "192.0.2.0/24"
	case "crawler":
		return "verified"
	case "country":
		return "DE"
	case "hosts":
		return "example.org"
	case "directory":
		return "https://agent.example"
	case "resolver":
		return "127.0.0.1:53"
	case "request":
		return "GET /search?q=x"
	case "verdict":
		return "meter pages"
	}
	return "…"
}
