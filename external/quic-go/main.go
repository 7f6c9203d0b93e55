// QUIC of quic-go (https://github.com/quic-go/quic-go) as a driver of Regatta.
//
// One connection with one stream: the token, then all messages. When the receiver has everything, it
// answers with the number of bytes received, in eight bytes. docs/external-drivers.md describes the
// lines that it exchanges with the agent.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

const (
	contractVersion = 1
	unsupportedExit = 77
	protocol        = "regatta"
	abandon         = "abandon"
	module          = "github.com/quic-go/quic-go"

	// Interval of progress reports: short enough for the series, too long to cost CPU time.
	progressInterval = 50 * time.Millisecond

	// The only congestion control of quic-go: its CUBIC sender is constructed with Reno enabled, and
	// no option of its interface changes that.
	congestionControl = "reno"
)

// order is a request of the agent.
type order struct {
	Type              string     `json:"type"`
	Local             netip.Addr `json:"local"`
	Peer              netip.Addr `json:"peer"`
	Ports             *[2]uint16 `json:"ports"`
	Token             string     `json:"token"`
	SizeBytes         uint64     `json:"size_bytes"`
	MessageFile       string     `json:"message_file"`
	Finish            string     `json:"finish"`
	CongestionControl string     `json:"congestion_control"`
	DeadlineNs        int64      `json:"deadline_ns"`
	Port              uint16     `json:"port"`
	TLS               struct {
		CertificateFile string `json:"certificate_file"`
		KeyFile         string `json:"key_file"`
		ServerName      string `json:"server_name"`
	} `json:"tls"`
	Path struct {
		RoundTripDelayNs int64   `json:"round_trip_delay_ns"`
		WindowBytes      *uint64 `json:"window_bytes"`
		MtuBytes         uint32  `json:"mtu_bytes"`
	} `json:"path"`
}

var (
	input  = bufio.NewReader(os.Stdin)
	output sync.Mutex
)

// say sends a line to the agent: one JSON object.
func say(message map[string]any) {
	line, err := json.Marshal(message)
	if err != nil {
		fail(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		fail(err)
	}
}

// hear returns the agent's next line. It ends the program at the end of its input.
func hear() order {
	line, err := input.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		os.Exit(0)
	}
	var heard order
	if err == nil {
		err = json.Unmarshal(line, &heard)
	}
	if err != nil {
		fail(err)
	}
	return heard
}

// fail ends the program. The result of the failed trial contains the reason.
func fail(reason error) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}

func unsupported(reason, hint string) {
	fmt.Fprintf(os.Stderr, "%s\nhint: %s\n", reason, hint)
	os.Exit(unsupportedExit)
}

// monotonicNs returns the time of CLOCK_MONOTONIC, the agent's clock.
func monotonicNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		fail(err)
	}
	return now.Nano()
}

// stackVersion returns the version of quic-go in this build.
func stackVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version[len("v"):]
			}
		}
	}
	return "unknown"
}

// windowBytes returns the flow-control window that all drivers use, or two bandwidth-delay products of
// 1 Gbit/s where nothing limits the path's rate.
func (o *order) windowBytes() uint64 {
	if o.Path.WindowBytes != nil {
		return *o.Path.WindowBytes
	}
	return max(1<<20, uint64(2e9/8*float64(o.Path.RoundTripDelayNs)/1e9))
}

// header returns the number of bytes of IP and UDP before a packet's payload.
func (o *order) header() uint32 {
	if o.Local.Is6() {
		return 48
	}
	return 28
}

func (o *order) config() *quic.Config {
	if o.CongestionControl != congestionControl {
		unsupported(
			fmt.Sprintf("quic-go has no congestion control `%s`", o.CongestionControl),
			fmt.Sprintf("use `cc = \"%s\"`, the only one that it has", congestionControl),
		)
	}
	window := o.windowBytes()
	return &quic.Config{
		// The transfer may stall on a bad path, but not beyond its deadline.
		HandshakeIdleTimeout:           time.Duration(o.DeadlineNs) + time.Minute,
		MaxIdleTimeout:                 time.Duration(o.DeadlineNs) + time.Minute,
		InitialStreamReceiveWindow:     window,
		MaxStreamReceiveWindow:         window,
		InitialConnectionReceiveWindow: window,
		MaxConnectionReceiveWindow:     window,
		// quic-go accepts at most 1452, and searches for the path's size from there.
		InitialPacketSize: uint16(max(1200, min(o.Path.MtuBytes-o.header(), maxPacketSize))),
	}
}

func (o *order) tlsConfig() *tls.Config {
	certificate, err := os.ReadFile(o.TLS.CertificateFile)
	if err != nil {
		fail(err)
	}
	config := &tls.Config{
		NextProtos: []string{protocol},
		MinVersion: tls.VersionTLS13,
		// Go would add X25519MLKEM768, whose key takes a second Initial packet; all stacks use the same group.
		CurvePreferences: []tls.CurveID{tls.X25519},
	}
	if o.TLS.KeyFile == "" {
		// Only the run's certificate is trusted.
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(certificate) {
			fail(errors.New("the run's certificate cannot be read"))
		}
		config.ServerName = o.TLS.ServerName
		return config
	}
	key, err := os.ReadFile(o.TLS.KeyFile)
	if err != nil {
		fail(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		fail(err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config
}

func (o *order) transport() *quic.Transport {
	ports := [2]uint16{0, 0}
	if o.Ports != nil {
		ports = *o.Ports
	}
	for port := uint32(ports[0]); ; port++ {
		address := netip.AddrPortFrom(o.Local, uint16(port))
		socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
		if err == nil {
			return &quic.Transport{Conn: socket}
		}
		if !errors.Is(err, unix.EADDRINUSE) || port >= uint32(ports[1]) {
			fail(err)
		}
	}
}

func (o *order) token() []byte {
	token, err := hex.DecodeString(o.Token)
	if err != nil {
		fail(err)
	}
	return token
}

// progress counts bytes and reports them to the agent.
type progress struct {
	bytes uint64
	told  time.Time
}

func (p *progress) add(length int) {
	p.bytes += uint64(length)
	if now := time.Now(); now.Sub(p.told) >= progressInterval {
		p.told = now
		say(map[string]any{"type": "progress", "bytes": p.bytes})
	}
}

// maxPacketSize is quic-go's limit, in bytes of UDP payload.
const maxPacketSize = 1452

// initialWindowPackets is quic-go's fixed initial window.
const initialWindowPackets = 32

var ciphers = map[uint16]string{
	tls.TLS_AES_128_GCM_SHA256:       "AES-128-GCM",
	tls.TLS_AES_256_GCM_SHA384:       "AES-256-GCM",
	tls.TLS_CHACHA20_POLY1305_SHA256: "ChaCha20-Poly1305",
}

// certificate returns the kind of the server's key and the size of its chain.
func (o *order) certificate(state tls.ConnectionState) string {
	var chain [][]byte
	if o.TLS.KeyFile == "" {
		for _, it := range state.PeerCertificates {
			chain = append(chain, it.Raw)
		}
	} else {
		chain = o.tlsConfig().Certificates[0].Certificate
	}
	size := 0
	for _, it := range chain {
		size += len(it)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		fail(err)
	}
	kind := leaf.PublicKeyAlgorithm.String()
	if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); ok {
		kind = fmt.Sprintf("ECDSA %s", key.Curve.Params().Name)
	}
	return fmt.Sprintf("%s, %d B", kind, size)
}

func (o *order) facts(connection *quic.Conn, role string) map[string]string {
	state := connection.ConnectionState()
	config := o.config()
	known := map[string]string{
		"congestion_control." + role: congestionControl,
		"tls.version":                "1.3",
		"tls.cipher_suite":           tls.CipherSuiteName(state.TLS.CipherSuite),
		"tls.key_exchange":           state.TLS.CurveID.String(),
		"tls.certificate":            o.certificate(state.TLS),
		"gso." + role:                fmt.Sprint(state.GSO),
		"threads." + role:            fmt.Sprintf("Go's runtime on %d cores, protocol in it", runtime.GOMAXPROCS(0)),
	}
	if role == "receiver" {
		known["offloads."+role] = "none"
		known["acknowledgements."+role] = "every second packet, or after 25 ms"
		known["flow_control."+role] = fmt.Sprintf(
			"stream %d B, connection %d B", config.MaxStreamReceiveWindow, config.MaxConnectionReceiveWindow,
		)
		return known
	}
	known["initial_window."+role] = fmt.Sprintf("%d packets", initialWindowPackets)
	known["slow_start_exit."+role] = "HyStart"
	known["pacing."+role] = "by the stack"
	known["packet_size."+role] = fmt.Sprintf(
		"%d B, searched up to %d B", uint32(config.InitialPacketSize)+o.header(), maxPacketSize+o.header(),
	)
	known["first_flight."+role] = fmt.Sprintf("%d B", uint32(config.InitialPacketSize)+o.header())
	known["cipher."+role] = ciphers[state.TLS.CipherSuite]
	known["crypto."+role] = "Go"
	known["offloads."+role] = "none"
	if state.GSO {
		known["offloads."+role] = "of the socket: on"
	}
	return known
}

func send(o order) {
	message, err := os.ReadFile(o.MessageFile)
	if err != nil {
		fail(err)
	}
	transport, config, tlsConfig, token := o.transport(), o.config(), o.tlsConfig(), o.token()
	say(map[string]any{"type": "ready"})
	port := hear().Port
	peer := net.UDPAddrFromAddrPort(netip.AddrPortFrom(o.Peer, port))

	started := monotonicNs()
	connection, err := transport.Dial(context.Background(), peer, tlsConfig, config)
	if err != nil {
		fail(fmt.Errorf("cannot connect: %w", err))
	}
	say(map[string]any{"type": "connected", "started_ns": started, "at_ns": monotonicNs()})
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		fail(err)
	}
	if _, err := stream.Write(token); err != nil {
		fail(err)
	}
	var sent progress
	for left := o.SizeBytes; left > 0; {
		piece := message[:min(left, uint64(len(message)))]
		if _, err := stream.Write(piece); err != nil {
			fail(err)
		}
		left -= uint64(len(piece))
		sent.add(len(piece))
	}
	if o.Finish == abandon {
		if err := connection.CloseWithError(0, "all is handed over"); err != nil {
			fail(err)
		}
		say(map[string]any{
			"type":  "done",
			"at_ns": monotonicNs(),
			"bytes": sent.bytes,
			"facts": o.facts(connection, "sender"),
		})
		hear()
	}
	if err := stream.Close(); err != nil {
		fail(err)
	}
	var answer [8]byte
	if _, err := io.ReadFull(stream, answer[:]); err != nil {
		fail(fmt.Errorf("no acknowledgement: %w", err))
	}
	arrived := monotonicNs()
	statistics := connection.ConnectionStats()
	say(map[string]any{
		"type":  "done",
		"at_ns": arrived,
		"bytes": binary.BigEndian.Uint64(answer[:]),
		"facts": o.facts(connection, "sender"),
		"metrics": map[string]float64{
			"smoothed_rtt_last_ns": float64(statistics.SmoothedRTT),
			"min_rtt_ns":            float64(statistics.MinRTT),
			"retransmitted_packets": float64(statistics.PacketsLost),
			"retransmit_ratio":      float64(statistics.PacketsLost) / float64(max(1, statistics.PacketsSent)),
		},
	})
	hear()
}

// delivered counts received bytes.
type delivered struct {
	sync.Mutex
	progress
	crc32 uint32
}

func (d *delivered) done(at int64, more map[string]string) {
	d.Lock()
	defer d.Unlock()
	say(map[string]any{"type": "done", "at_ns": at, "bytes": d.bytes, "crc32": d.crc32, "facts": more})
}

// admit accepts the first stream of the first connection from the peer with the token.
func admit(o *order, listener *quic.Listener) (*quic.Conn, *quic.Stream) {
	type flow struct {
		connection *quic.Conn
		stream     *quic.Stream
	}
	admitted := make(chan flow)
	token := o.token()
	look := func(connection *quic.Conn) {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			return
		}
		opening := make([]byte, len(token))
		if _, err := io.ReadFull(stream, opening); err != nil {
			return
		}
		if subtle.ConstantTimeCompare(opening, token) != 1 {
			_ = connection.CloseWithError(1, "this is not the trial's token")
			return
		}
		admitted <- flow{connection, stream}
	}
	go func() {
		for {
			connection, err := listener.Accept(context.Background())
			if err != nil {
				fail(err)
			}
			address := connection.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
			if address != o.Peer {
				_ = connection.CloseWithError(2, "this is not the trial's peer")
				continue
			}
			go look(connection)
		}
	}()
	flowed := <-admitted
	return flowed.connection, flowed.stream
}

func receive(o order) {
	transport := o.transport()
	listener, err := transport.Listen(o.tlsConfig(), o.config())
	if err != nil {
		fail(err)
	}
	port := transport.Conn.LocalAddr().(*net.UDPAddr).Port
	say(map[string]any{"type": "ready", "port": port})
	var here delivered
	go func() {
		for {
			if hear().Type == "stop" {
				here.done(monotonicNs(), nil)
			}
		}
	}()
	connection, stream := admit(&o, listener)
	say(map[string]any{"type": "connected", "at_ns": monotonicNs()})
	buffer := make([]byte, 256<<10)
	for here.bytes < o.SizeBytes {
		length, err := stream.Read(buffer)
		here.Lock()
		here.crc32 = crc32.Update(here.crc32, crc32.IEEETable, buffer[:length])
		here.add(length)
		here.Unlock()
		if err != nil && here.bytes < o.SizeBytes {
			if o.Finish == abandon {
				here.done(monotonicNs(), o.facts(connection, "receiver"))
				select {}
			}
			fail(fmt.Errorf("the transfer broke: %w", err))
		}
	}
	// A sender that abandons waits for no answer, and may have closed the connection already.
	if o.Finish != abandon {
		if _, err := stream.Write(binary.BigEndian.AppendUint64(nil, here.bytes)); err != nil {
			fail(err)
		}
		if err := stream.Close(); err != nil {
			fail(err)
		}
	}
	here.done(monotonicNs(), o.facts(connection, "receiver"))
	// The other goroutine ends the program.
	select {}
}

func main() {
	switch o := hear(); o.Type {
	case "describe":
		say(map[string]any{
			"type":         "description",
			"contract":     contractVersion,
			"name":         "quic-go",
			"version":      stackVersion(),
			"workloads":    []string{"bulk"},
			"capabilities": []string{abandon},
		})
	case "connect":
		send(o)
	default:
		receive(o)
	}
}
