package replay

// soonest is a heap of things by their time: the first is the soonest.
type soonest[T any] []timed[T]

type timed[T any] struct {
	at   int64
	what T
}

func (h *soonest[T]) push(at int64, what T) {
	*h = append(*h, timed[T]{at, what})
	a := *h
	for i := len(a) - 1; i > 0 && a[i].at < a[(i-1)/2].at; i = (i - 1) / 2 {
		a[i], a[(i-1)/2] = a[(i-1)/2], a[i]
	}
}

// pop takes the soonest out; there must be one.
func (h *soonest[T]) pop() (at int64, what T) {
	a := *h
	first, n := a[0], len(a)-1
	a[0] = a[n]
	a[n] = timed[T]{}
	a = a[:n]
	for i := 0; ; {
		least := 2*i + 1
		if least >= n {
			break
		}
		if least+1 < n && a[least+1].at < a[least].at {
			least++
		}
		if a[i].at <= a[least].at {
			break
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
	*h = a
	return first.at, first.what
}
