package client

import (
	"io"
	"net/http"
	"sync"
)

// cutter ends a watch as a network would, and makes the next one ask for a version that is long gone.
type cutter struct {
	lock   sync.Mutex
	end    func()
	armed  bool
	tooOld bool
}

func (c *cutter) see(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("watch") == "" {
		return next.RoundTrip(request)
	}
	c.lock.Lock()
	if c.armed && query.Get("sendInitialEvents") == "" {
		query.Set("resourceVersion", "1")
		request = request.Clone(request.Context())
		request.URL.RawQuery = query.Encode()
		c.armed, c.tooOld = false, true
	}
	c.lock.Unlock()
	response, err := next.RoundTrip(request)
	if err == nil {
		c.intercept(response)
	}
	return response, err
}

// intercept puts a pipe before the body, which can be closed although the server goes on.
func (c *cutter) intercept(response *http.Response) {
	body := response.Body
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, body)
		writer.CloseWithError(err)
	}()
	response.Body = &piped{reader, body}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.end = func() { writer.Close() }
}

func (c *cutter) cut() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.armed = true
	c.end()
}

func (c *cutter) askedForTooOld() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.tooOld
}

type piped struct {
	io.Reader
	body io.Closer
}

func (p *piped) Close() error { return p.body.Close() }
