package nginxtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

type connKey struct{}

// withConn remembers a connection's name: the peers of a unix socket have no address.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, fmt.Sprintf("%p", c))
}

func connOf(r *http.Request) string {
	name, _ := r.Context().Value(connKey{}).(string)
	return name
}
