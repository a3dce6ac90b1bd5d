package page

import "strconv"

// ProofRequired is the reason that asks for a proof. AppendPlain adds to it what a
// person at a command line can do.
const ProofRequired = "proof-required"

// AppendPlain appends the answer to a request that is not a navigation: a script's
// fetch, an image, git, a feed reader, curl. reason is a word for the client's log, and
// retry is in seconds, 0 for none. JSON has the line of text in "message", which git-lfs
// and npm show. It does not allocate if dst has the room.
func AppendPlain(dst []byte, json bool, reason string, retry int) []byte {
	if !json {
		return append(appendLine(dst, reason, retry), '\n')
	}
	dst = append(dst, `{"error":`...)
	dst = appendJSON(dst, reason)
	dst = append(dst, `,"message":`...)
	var line [128]byte
	dst = appendJSON(dst, appendLine(line[:0], reason, retry))
	if retry > 0 {
		dst = append(dst, `,"retry":`...)
		dst = strconv.AppendInt(dst, int64(retry), 10)
	}
	return append(dst, "}\n"...)
}

// appendLine is the answer for people, without the line's end.
func appendLine(dst []byte, reason string, retry int) []byte {
	for i := 0; i < len(reason); i++ {
		if c := reason[i]; c >= 0x20 && c != 0x7f { // one line, nothing for a terminal
			dst = append(dst, c)
		}
	}
	if reason == ProofRequired {
		dst = append(dst, ": open this address in a web browser"...)
	}
	if retry > 0 {
		dst = append(dst, "; try again in "...)
		dst = strconv.AppendInt(dst, int64(retry), 10)
		dst = append(dst, " s"...)
	}
	return dst
}
