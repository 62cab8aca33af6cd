import Foundation
public import Sanguine
import Synchronization

/// A network that delays, loses, duplicates and reorders requests, and can be partitioned.
///
/// ```swift
/// let network = FaultyNetwork(authority, seed: seed, clock: delay, faults: .rough)
/// configuration.transport = network
/// network.partition()
/// network.heal()
/// ```
///
/// The faults of a request follow from the seed, its path, and the number of earlier requests to
/// that path: a seed reproduces them if the code under test sends requests in the same order. The
/// ``description`` contains the seed and the events: print it when a test fails.
///
/// Mutable state: `state`, guarded by its mutex. Cancellations and stream events happen outside of
/// it.
public final class FaultyNetwork: StreamingTransport, UploadingTransport,
    CustomStringConvertible
{
    /// The faults of one request, drawn together so that one fault does not shift another.
    struct Plan: Sendable {
        let number: Int
        let partitions: Int
        let there: Duration
        let back: Duration
        let copy: Duration
        let isRequestLost: Bool
        let isAnswerLost: Bool
        let isDoubled: Bool
        let timeToNotice: Duration
    }

    fileprivate struct OpenRequest {
        let cancel: @Sendable () -> Void
        var isCut = false
    }

    struct Passage {
        weak var stream: TransportStream?
        let pump: Task<Void, Never>
    }

    struct State {
        var faults: Faults
        var isPartitioned = false
        var partitions = 0
        var requests = 0
        fileprivate var openRequests: [Int: OpenRequest] = [:]
        var copies: [Int: Task<Void, Never>] = [:]
        var passages: [Int: Passage] = [:]
        var dice: [String: SplitMix64] = [:]
        /// The numbers of parts after which the next streams break, by path.
        var cuts: [String: ArraySlice<Int>] = [:]
        var events: [Event] = []
        var counts: [Event.Kind: Int] = [:]
    }

    /// The seed of all random decisions.
    public let seed: UInt64

    private let state: Mutex<State>
    let base: any HTTPTransport
    let clock: any Clock<Duration>

    /// Creates a network in front of another one, or of a server.
    ///
    /// - Parameters:
    ///   - base: The destination of requests. If it does not support streams, they are answered
    ///     with 501.
    ///   - seed: The seed of all random decisions.
    ///   - clock: The clock that measures delays.
    ///   - faults: The faults of requests. Default: none yet.
    public init(
        _ base: any HTTPTransport,
        seed: UInt64,
        clock: any Clock<Duration>,
        faults: Faults = .none
    ) {
        self.base = base
        self.seed = seed
        self.clock = clock
        state = Mutex(State(faults: faults))
    }

    deinit {
        for copy in state.withLock({ $0.copies.values }) { copy.cancel() }
    }

    // MARK: - Faults

    /// The faults of later requests.
    public var faults: Faults {
        get { state.withLock { $0.faults } }
        set { state.withLock { $0.faults = newValue } }
    }

    /// Whether the network is partitioned.
    public var isPartitioned: Bool { state.withLock { $0.isPartitioned } }

    /// Partitions the network: pending requests are lost, streams break, and further requests are
    /// not sent.
    public func partition() {
        let (openRequests, copies, passages) = state.withLock { state in
            state.isPartitioned = true
            state.partitions += 1
            for number in state.openRequests.keys { state.openRequests[number]?.isCut = true }
            defer { (state.copies, state.passages) = ([:], [:]) }
            return (
                state.openRequests.values.map(\.cancel), Array(state.copies.values),
                Array(state.passages.values)
            )
        }
        for cancel in openRequests { cancel() }
        for copy in copies { copy.cancel() }
        for passage in passages {
            passage.stream?.finish(.interrupted("the network was partitioned"))
            passage.pump.cancel()
        }
    }

    /// Ends a partition; ``faults`` do not change.
    public func heal() { state.withLock { $0.isPartitioned = false } }

    // MARK: - Events

    /// The events, newest last; at most ``TestingLimits/events``.
    public var events: [Event] { state.withLock { $0.events } }

    /// Returns the number of events of a kind.
    public func count(of kind: Event.Kind) -> Int { state.withLock { $0.counts[kind] ?? 0 } }

    /// The seed, the numbers of events by kind, and the last twenty events.
    public var description: String {
        let (counts, events) = state.withLock { ($0.counts, $0.events.suffix(20)) }
        let numbers = Event.Kind.allCases.compactMap { kind in
            counts[kind].map { "\($0) \(kind.rawValue)" }
        }
        let lines = events.map { "\n  \($0)" }.joined()
        return "FaultyNetwork, seed \(seed): \(numbers.joined(separator: ", "))\(lines)"
    }

    func record(_ kind: Event.Kind, _ number: Int, _ request: TransportRequest) {
        state.withLock { state in
            state.counts[kind, default: 0] += 1
            if state.events.count >= TestingLimits.events { state.events.removeFirst() }
            let name = "\(request.method) \(request.path)"
            state.events.append(Event(number: number, request: name, kind: kind))
        }
    }

    // MARK: - Transport

    /// Sends a request, subject to faults.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        try await exchange(request) { [self] plan in
            await carry(request, plan) { base throws(TransportError) in
                try await base.send(request)
            }
        }
        .value
    }

    /// Sends a request with a body, subject to faults.
    ///
    /// The underlying network reports how much of the body has been sent.
    public func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        // Load the body into memory if it fits, because a duplicate may be sent after the file is
        // gone.
        let request = request.withBodyInMemory ?? request
        return try await exchange(request) { [self] plan in
            await carry(request, plan) { base throws(TransportError) in
                try await base.carry(request, progress: progress)
            }
        }
        .value
    }

    /// Runs an exchange in a separate task, which a partition can cancel.
    func exchange<Value: Sendable>(
        _ request: TransportRequest,
        _ body: @escaping @Sendable (Plan) async -> Result<Value, TransportError>
    ) async throws(TransportError) -> (value: Value, plan: Plan) {
        typealias Flying = Task<Result<Value, TransportError>, Never>
        let (plan, task) = state.withLock { state -> (Plan, Flying?) in
            let plan = draw(request, &state)
            guard !state.isPartitioned else { return (plan, nil) }
            let task = Flying { await body(plan) }
            state.openRequests[plan.number] = OpenRequest(cancel: { task.cancel() })
            return (plan, task)
        }
        guard let task else {
            record(.turnedAway, plan.number, request)
            throw .offline("the network is partitioned")
        }
        let result = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        let isCut =
            state.withLock { $0.openRequests.removeValue(forKey: plan.number)?.isCut } ?? true
        if Task.isCancelled {
            record(.failed, plan.number, request)
            throw .cancelled
        }
        if isCut {
            record(.cutOff, plan.number, request)
            throw .interrupted("the network was partitioned")
        }
        return (try result.get(), plan)
    }

    /// Delivers a request, and its response.
    func carry<Value: Sendable>(
        _ request: TransportRequest,
        _ plan: Plan,
        _ deliver: (any HTTPTransport) async throws(TransportError) -> Value
    ) async -> Result<Value, TransportError> {
        guard await wait(plan.there) else { return .failure(.cancelled) }
        if plan.isRequestLost { return await lose(request, plan, .requestLost) }
        if plan.isDoubled { double(request, plan) }
        let value: Value
        do throws(TransportError) {
            value = try await deliver(base)
        } catch {
            // A cancelled exchange is recorded by the code that cancelled it.
            if !Task.isCancelled { record(.failed, plan.number, request) }
            return .failure(error)
        }
        if plan.isAnswerLost { return await lose(request, plan, .answerLost) }
        guard await wait(plan.back) else { return .failure(.cancelled) }
        record(.carried, plan.number, request)
        return .success(value)
    }

    private func lose<Value>(
        _ request: TransportRequest,
        _ plan: Plan,
        _ kind: Event.Kind
    ) async -> Result<Value, TransportError> {
        record(kind, plan.number, request)
        guard await wait(min(plan.timeToNotice, request.timeout)) else {
            return .failure(.cancelled)
        }
        let isTimeOut = plan.timeToNotice >= request.timeout
        return .failure(isTimeOut ? .timedOut : .interrupted("the connection broke"))
    }

    /// Sends a duplicate after the request; its response is discarded.
    private func double(_ request: TransportRequest, _ plan: Plan) {
        state.withLock { state in
            guard !state.isPartitioned, state.copies.count < TestingLimits.copies else { return }
            state.copies[plan.number] = Task { [weak self, clock, base] in
                if plan.copy > .zero, (try? await clock.sleep(for: plan.copy)) == nil { return }
                guard !Task.isCancelled else { return }
                self?.record(.doubled, plan.number, request)
                _ = try? await base.carry(request, progress: nil)
                self?.state.withLock { _ = $0.copies.removeValue(forKey: plan.number) }
            }
        }
    }

    /// Returns whether the wait ended without cancellation.
    func wait(_ duration: Duration) async -> Bool {
        guard duration > .zero else { return !Task.isCancelled }
        return (try? await clock.sleep(for: duration)) != nil
    }
}

// MARK: - Random decisions

extension FaultyNetwork {
    private func draw(_ request: TransportRequest, _ state: inout State) -> Plan {
        state.requests += 1
        let (number, faults, partitions) = (state.requests, state.faults, state.partitions)
        return roll(request.path, &state) { dice in
            Plan(
                number: number,
                partitions: partitions,
                there: dice.duration(in: faults.delay),
                back: dice.duration(in: faults.delay),
                copy: dice.duration(in: faults.delay),
                isRequestLost: dice.happens(faults.requestLoss),
                isAnswerLost: dice.happens(faults.answerLoss),
                isDoubled: dice.happens(faults.duplication),
                timeToNotice: faults.timeToNotice
            )
        }
    }

    /// Draws the faults of a part of a stream.
    func drawPart(_ request: TransportRequest) -> (delay: Duration, isBroken: Bool) {
        state.withLock { state in
            let faults = state.faults
            return roll("stream \(request.path)", &state) { dice in
                (dice.duration(in: faults.delay), dice.happens(faults.streamBreak))
            }
        }
    }

    /// Draws how many bytes of the breaking part arrive.
    func drawLength(of bytes: Data, _ request: TransportRequest) -> Int {
        state.withLock { state in
            roll("break \(request.path)", &state) { Int.random(in: 0..<bytes.count, using: &$0) }
        }
    }

    /// Draws from a path's generator; all paths after the first thousand share one.
    private func roll<Value>(
        _ path: String,
        _ state: inout State,
        _ body: (inout SplitMix64) -> Value
    ) -> Value {
        let isKnown = state.dice[path] != nil || state.dice.count < TestingLimits.events
        let path = isKnown ? path : ""
        // FNV-1a: Swift's own hashes differ from run to run.
        let hash = path.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { hash, byte in
            (hash ^ UInt64(byte)) &* 0x100_0000_01B3
        }
        return body(&state.dice[path, default: SplitMix64(seed: seed ^ hash)])
    }
}

extension SplitMix64 {
    fileprivate mutating func happens(_ probability: Double) -> Bool {
        Double.random(in: 0..<1, using: &self) < probability
    }

    fileprivate mutating func duration(in range: ClosedRange<Duration>) -> Duration {
        let part = Double.random(in: 0...1, using: &self)
        return range.lowerBound + (range.upperBound - range.lowerBound) * part
    }
}

// MARK: - Streams

// Streams break and are delayed, but like TCP, they deliver nothing twice or out of order.
extension FaultyNetwork {
    /// Opens a stream that may break, and whose parts may be delayed.
    public func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        guard base is any StreamingTransport else {
            let stream = TransportStream(response: TransportResponse(status: 501), onCancel: {})
            stream.finish()
            return stream
        }
        let (upstream, plan) = try await exchange(request) { [self] plan in
            await carry(request, plan.withoutCopy) { base throws(TransportError) in
                guard let base = base as? any StreamingTransport else {
                    throw .invalid("the transport has no streams. Use a StreamingTransport.")
                }
                return try await base.stream(request)
            }
        }
        let stream = TransportStream(response: upstream.response) { [weak self] in
            self?.release(plan.number)
        }
        let isOpen = state.withLock { state in
            guard state.partitions == plan.partitions else { return false }
            let cut = state.cuts[request.path]?.popFirst()
            let pump = Task { [weak self, weak stream, room = stream.demand] in
                var rest = cut
                while let part = await Self.next(of: upstream) {
                    // Neither is retained while the reader is slow.
                    let isCut = rest == 0
                    guard await self?.pass(part, to: stream, plan, request, isCut: isCut) == true
                    else { break }
                    rest = rest.map { $0 - 1 }
                    await room.wait()
                }
                upstream.cancel()
                stream?.finish(.interrupted("the network was released"))  // Unless it has ended.
                self?.release(plan.number)
            }
            state.passages[plan.number] = Passage(stream: stream, pump: pump)
            return true
        }
        guard isOpen else { throw .interrupted("the network was partitioned") }
        return stream
    }

    /// Returns the next part, or `nil` after the end.
    private static func next(of upstream: TransportStream) async -> Part? {
        do throws(TransportError) {
            return try await upstream.next().map { .bytes($0) } ?? .end(nil)
        } catch {
            return .end(error)
        }
    }

    private enum Part {
        case bytes(Data)
        case end(TransportError?)
    }

    /// Passes a part on; returns whether there may be more.
    private func pass(
        _ part: Part,
        to stream: TransportStream?,
        _ plan: Plan,
        _ request: TransportRequest,
        isCut: Bool
    ) async -> Bool {
        var (delay, isBroken) = drawPart(request)
        isBroken = isBroken || isCut
        guard await wait(delay), let stream else { return false }
        switch part {
        case .end(let error):
            stream.finish(error)
            return false
        case .bytes(let bytes) where isBroken:
            // TCP has no events, so some bytes of the last event may arrive.
            stream.receive(bytes.prefix(drawLength(of: bytes, request)))
            record(.streamBroken, plan.number, request)
            stream.finish(.interrupted("the connection broke"))
            return false
        case .bytes(let bytes):
            stream.receive(bytes)
            return true
        }
    }

    /// Breaks a later stream after the given number of parts, in the middle of the next one.
    ///
    /// A part of a streamed answer is one event. The break does not stop a running call on the
    /// server.
    ///
    /// - Parameters:
    ///   - path: The path of the request: `/v1/functions/ask`. Several breaks for one path apply to
    ///     successive streams.
    ///   - parts: The number of parts that arrive completely. Default: none.
    public func breakStream(of path: String, afterParts parts: Int = 0) {
        state.withLock { $0.cuts[path, default: []].append(max(0, parts)) }
    }

    private func release(_ number: Int) {
        state.withLock { $0.passages.removeValue(forKey: number) }?.pump.cancel()
    }
}

extension FaultyNetwork.Plan {
    fileprivate var withoutCopy: FaultyNetwork.Plan {
        FaultyNetwork.Plan(
            number: number,
            partitions: partitions,
            there: there,
            back: back,
            copy: copy,
            isRequestLost: isRequestLost,
            isAnswerLost: isAnswerLost,
            isDoubled: false,
            timeToNotice: timeToNotice
        )
    }
}
