package replay

import "io"

// WriteHTML is written below.
func (r *Report) WriteHTML(w io.Writer) error { return nil }
