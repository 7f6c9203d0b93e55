// QUIC of quic-go (https://github.com/quic-go/quic-go) as a driver of Regatta.
//
// One connection with one stream: the token, then all messages, and in an exchange an answer to each. When
// the receiver has everything, it answers with the number of bytes received, in eight bytes. The probe has a
// connection of its own with one stream. docs/external-drivers.md describes the
// lines that it exchanges with the agent.
package main

import (
	"bufio"
	"bytes"
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
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

const (
	contractVersion = 2
	unsupportedExit = 77
	protocol        = "regatta"
	abandon         = "abandon"
	module          = "github.com/quic-go/quic-go"

	// Interval of progress reports: short enough for the series, too long to cost CPU time.
	progressInterval = 50 * time.Millisecond

	// Most answers in a line, which has at most 64 KiB.
	answersInLine = 1000

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
	MessageBytes      uint64     `json:"message_bytes"`
	MessageFile       string     `json:"message_file"`
	Finish            string     `json:"finish"`
	CongestionControl string     `json:"congestion_control"`
	DeadlineNs        int64      `json:"deadline_ns"`
	Port              uint16     `json:"port"`
	Exchange          *exchange  `json:"exchange"`
	Probe             *probePlan `json:"probe"`
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

// exchange has the answers to the messages of an order.
type exchange struct {
	Requests          uint64   `json:"requests"`
	AnswerBytes       uint64   `json:"answer_bytes"`
	AnswerFile        string   `json:"answer_file"`
	Outstanding       int      `json:"outstanding"`
	RequestsPerSecond *float64 `json:"requests_per_second"`
}

// probePlan has the messages of the probe.
type probePlan struct {
	Token        string `json:"token"`
	MessageBytes int    `json:"message_bytes"`
	IdleMessages int    `json:"idle_messages"`
	IntervalNs   *int64 `json:"interval_ns"`
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

// tokenBytes returns the bytes of a token.
func tokenBytes(token string) []byte {
	decoded, err := hex.DecodeString(token)
	if err != nil {
		fail(err)
	}
	return decoded
}

func readFile(name string) []byte {
	content, err := os.ReadFile(name)
	if err != nil {
		fail(err)
	}
	return content
}

func write(stream *quic.Stream, data []byte) {
	if _, err := stream.Write(data); err != nil {
		fail(err)
	}
}

// answers are departures of messages and arrivals of their answers, reported some at a time.
type answers struct {
	to    string
	times [][2]int64
	told  int64
}

func (a *answers) add(left, at int64) {
	a.times = append(a.times, [2]int64{left, at})
	if at-a.told >= int64(progressInterval) || len(a.times) == answersInLine {
		a.tell()
	}
}

func (a *answers) tell() {
	if len(a.times) > 0 {
		say(map[string]any{"type": "answers", "to": a.to, "times_ns": a.times})
	}
	a.times, a.told = a.times[:0], monotonicNs()
}

func sleepUntil(due int64) {
	time.Sleep(time.Duration(due - monotonicNs()))
}

// retransmitted counts the packets of the probe's connection that quic-go declares lost from `start` on.
type retransmitted struct {
	connection *quic.Conn
	before     uint64
	told       uint64
}

func (r *retransmitted) start() {
	r.before = r.connection.ConnectionStats().PacketsLost
	r.say()
}

// tell reports the number if it has changed.
func (r *retransmitted) tell() {
	if r.connection.ConnectionStats().PacketsLost-r.before != r.told {
		r.say()
	}
}

func (r *retransmitted) say() {
	r.told = r.connection.ConnectionStats().PacketsLost - r.before
	say(map[string]any{"type": "probe_retransmitted", "packets": r.told})
}

// probe is the connection of the probe at the connecting end.
type probe struct {
	plan          *probePlan
	stream        *quic.Stream
	retransmitted retransmitted
	connected     int64
	over          atomic.Int64
}

// dialer has what is prepared before a connect call.
type dialer struct {
	transport *quic.Transport
	tls       *tls.Config
	config    *quic.Config
}

func (o *order) dialer() dialer {
	return dialer{o.transport(), o.tlsConfig(), o.config()}
}

// dial opens a connection, and a stream on it after `connected`.
func (d *dialer) dial(peer netip.Addr, port uint16, connected func()) (*quic.Conn, *quic.Stream) {
	address := net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, port))
	connection, err := d.transport.Dial(context.Background(), address, d.tls, d.config)
	if err != nil {
		fail(fmt.Errorf("cannot connect: %w", err))
	}
	connected()
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		fail(err)
	}
	return connection, stream
}

// openProbe connects the probe, and has its messages before the transfer answered one after another.
func openProbe(o *order, port uint16) *probe {
	dialer := o.dialer()
	connection, stream := dialer.dial(o.Peer, port, func() {})
	p := &probe{plan: o.Probe, stream: stream, retransmitted: retransmitted{connection: connection}}
	write(stream, tokenBytes(o.Probe.Token))
	message, idle := make([]byte, o.Probe.MessageBytes), answers{to: "idle_probe", told: monotonicNs()}
	for range o.Probe.IdleMessages {
		left := monotonicNs()
		write(stream, message)
		if _, err := io.ReadFull(stream, message); err != nil {
			fail(fmt.Errorf("no answer to the probe: %w", err))
		}
		idle.add(left, monotonicNs())
	}
	idle.tell()
	say(map[string]any{"type": "probed"})
	return p
}

func (p *probe) due(number int64) int64 {
	return p.connected + (number+1)**p.plan.IntervalNs
}

// start begins the schedule under load.
func (p *probe) start(connected int64) {
	if p.plan.IntervalNs == nil {
		return
	}
	p.connected = connected
	p.retransmitted.start()
	go func() {
		message := make([]byte, p.plan.MessageBytes)
		for number := int64(0); ; number++ {
			sleepUntil(p.due(number))
			if over := p.over.Load(); over != 0 && p.due(number) >= over {
				return
			}
			write(p.stream, message)
		}
	}()
	go func() {
		answer, load := make([]byte, p.plan.MessageBytes), answers{to: "probe", told: connected}
		for number := int64(0); ; number++ {
			if _, err := io.ReadFull(p.stream, answer); err != nil {
				return
			}
			// Before the answers: with the last of them the agent has everything.
			p.retransmitted.tell()
			load.add(p.due(number), monotonicNs())
			if p.over.Load() != 0 || *p.plan.IntervalNs > int64(progressInterval) {
				load.tell()
			}
		}
	}()
}

// end ends the schedule under load: the transfer is over.
func (p *probe) end(over int64) {
	if p != nil {
		p.over.Store(over)
	}
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

// sendAll sends all messages of a bulk transfer.
func sendAll(o *order, stream *quic.Stream, message []byte) progress {
	write(stream, tokenBytes(o.Token))
	var sent progress
	for left := o.SizeBytes; left > 0; {
		piece := message[:min(left, uint64(len(message)))]
		write(stream, piece)
		left -= uint64(len(piece))
		sent.add(len(piece))
	}
	return sent
}

// askAll sends each message when it is due and few enough wait for their answers; returns the CRC-32 of all answers.
func askAll(o *order, stream *quic.Stream, message []byte, connected int64) uint32 {
	spec := o.Exchange
	room, waiting := make(chan struct{}, spec.Outstanding), make(chan int64, spec.Outstanding)
	answered := make(chan uint32)
	go func() {
		var crc uint32
		buffer, times := make([]byte, 256<<10), answers{to: "requests", told: connected}
		for got, all := uint64(0), spec.Requests*spec.AnswerBytes; got < all; {
			length, err := stream.Read(buffer[:min(uint64(len(buffer)), all-got)])
			now := monotonicNs()
			crc = crc32.Update(crc, crc32.IEEETable, buffer[:length])
			for range (got+uint64(length))/spec.AnswerBytes - got/spec.AnswerBytes {
				times.add(<-waiting, now)
				<-room
			}
			got += uint64(length)
			if err != nil && got < all {
				fail(fmt.Errorf("the exchange broke: %w", err))
			}
		}
		times.tell()
		answered <- crc
	}()
	var sent progress
	opening := tokenBytes(o.Token)
	if spec.Requests == 0 {
		write(stream, opening)
	}
	for number, left := uint64(0), o.SizeBytes; left > 0; number++ {
		room <- struct{}{}
		if spec.RequestsPerSecond != nil {
			sleepUntil(connected + int64(float64(number)*1e9 / *spec.RequestsPerSecond))
		}
		piece := message[:min(left, uint64(len(message)))]
		waiting <- monotonicNs()
		// The first one leaves together with the token.
		write(stream, append(opening, piece...))
		opening = opening[:0]
		left -= uint64(len(piece))
		sent.add(len(piece))
	}
	return <-answered
}

func send(o order) {
	message := readFile(o.MessageFile)
	dialer := o.dialer()
	say(map[string]any{"type": "ready"})
	var probing *probe
	start := hear()
	if start.Type == "probe" {
		probing = openProbe(&o, start.Port)
		start = hear()
	}

	started, connected := monotonicNs(), int64(0)
	connection, stream := dialer.dial(o.Peer, start.Port, func() {
		connected = monotonicNs()
		say(map[string]any{"type": "connected", "started_ns": started, "at_ns": connected})
	})
	if probing != nil {
		probing.start(connected)
	}
	var sent progress
	var crc any
	if o.Exchange != nil {
		crc = askAll(&o, stream, message, connected)
	} else {
		sent = sendAll(&o, stream, message)
	}
	if o.Finish == abandon {
		if err := connection.CloseWithError(0, "all is handed over"); err != nil {
			fail(err)
		}
		closed := monotonicNs()
		probing.end(closed)
		say(map[string]any{
			"type":  "done",
			"at_ns": closed,
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
	probing.end(arrived)
	statistics := connection.ConnectionStats()
	say(map[string]any{
		"type":  "done",
		"at_ns": arrived,
		"bytes": binary.BigEndian.Uint64(answer[:]),
		"crc32": crc,
		"facts": o.facts(connection, "sender"),
		"metrics": map[string]float64{
			"smoothed_rtt_last_ns":  float64(statistics.SmoothedRTT),
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

// flow is a connection with its stream.
type flow struct {
	connection *quic.Conn
	stream     *quic.Stream
}

// admit accepts the first stream of the first connection from the peer with the token, and sends the probe's
// messages back as they come. It returns the probe's connection, too, which is nil without a probe.
func admit(o *order, listener *quic.Listener) (flow, *quic.Conn) {
	admitted, probed := make(chan flow), make(chan *quic.Conn, 1)
	token := tokenBytes(o.Token)
	var probeToken []byte
	if o.Probe != nil {
		probeToken = tokenBytes(o.Probe.Token)
	}
	look := func(connection *quic.Conn) {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			return
		}
		opening := make([]byte, len(token))
		if _, err := io.ReadFull(stream, opening); err != nil {
			return
		}
		if subtle.ConstantTimeCompare(opening, probeToken) == 1 {
			select {
			case probed <- connection:
				_, _ = io.Copy(stream, stream)
			default:
				_ = connection.CloseWithError(1, "the trial's probe is connected already")
			}
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
	// The probe's messages before the transfer have been answered, so that its connection is there.
	transfer := <-admitted
	select {
	case probing := <-probed:
		return transfer, probing
	default:
		return transfer, nil
	}
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
	transfer, probing := admit(&o, listener)
	connection, stream := transfer.connection, transfer.stream
	say(map[string]any{"type": "connected", "at_ns": monotonicNs()})
	if probing != nil {
		// Here, because a short transfer may be over before another goroutine runs.
		count := retransmitted{connection: probing}
		count.start()
		go func() {
			for range time.Tick(progressInterval) {
				count.tell()
			}
		}()
	}
	var answer []byte
	answered := uint64(0)
	if o.Exchange != nil {
		answer = readFile(o.Exchange.AnswerFile)
	}
	buffer := make([]byte, 256<<10)
	for here.bytes < o.SizeBytes {
		if whole := here.bytes / o.MessageBytes; o.Exchange != nil && whole > answered {
			write(stream, bytes.Repeat(answer, int(whole-answered)))
			answered = whole
		}
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
		var last []byte
		if o.Exchange != nil {
			last = bytes.Repeat(answer, int(o.Exchange.Requests-answered))
		}
		// The last answers leave together with the acknowledgement.
		write(stream, binary.BigEndian.AppendUint64(last, here.bytes))
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
			"workloads":    []string{"bulk", "stop-and-wait", "request-response"},
			"capabilities": []string{abandon, "probe"},
		})
	case "connect":
		send(o)
	default:
		receive(o)
	}
}
