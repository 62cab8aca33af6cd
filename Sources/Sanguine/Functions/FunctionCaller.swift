import Foundation
import SanguineModel
import Synchronization

/// Makes metered calls: shows the hold, stores it, sends, and sees each call through to its end.
///
/// A call runs in a task of its own, its *flight*. A caller who is cancelled stops waiting; the call
/// is seen through all the same, because the server charges for it all the same. A call that may
/// wait for a network has its request stored beside its hold, and is sent until it is answered, by
/// this process or a later one.
///
/// Mutable state: `guarded`, by its mutex, held over nothing.
final class FunctionCaller: Sendable {
    /// What all sendings of a call have in common.
    struct Sending: Sendable {
        let key: String
        let function: String
        /// The request; `nil` for a call that is only to be found.
        let body: Data?
        /// Whether it is sent until it is answered.
        var isQueued = false
        /// Whether its request is on disk.
        var isStored = false
    }

    /// A call under way, for those who wait for its answer.
    final class Flight: Sendable {
        let outcome = OneShot<Data>()
        /// Whether somebody waits for the answer, or is about to.
        fileprivate let isWanted: Mutex<Bool>
        /// What a queued call rests for; `nil` while it does not rest.
        fileprivate let rest = Mutex<OneShot<Void>?>(nil)
        /// Whether it was ever sent, or is not to be.
        private let start: Mutex<Start>

        private enum Start {
            case waiting
            case sent
            case withdrawn
        }

        fileprivate init(isWanted: Bool, mayHaveBeenSent: Bool) {
            self.isWanted = Mutex(isWanted)
            start = Mutex(mayHaveBeenSent ? .sent : .waiting)
        }

        fileprivate var isWithdrawn: Bool { start.withLock { $0 == .withdrawn } }

        /// It is about to be sent; returns whether it still may.
        fileprivate func sends() -> Bool {
            start.withLock { start in
                if start == .waiting { start = .sent }
                return start == .sent
            }
        }

        /// It is not to be sent; returns whether it never was.
        fileprivate func withdraw() -> Bool {
            let isWithdrawn = start.withLock { start in
                if start == .waiting { start = .withdrawn }
                return start == .withdrawn
            }
            if isWithdrawn { wake() }
            return isWithdrawn
        }

        fileprivate var isGiven: Bool { isWanted.withLock { $0 } }

        fileprivate func wake() { rest.withLock { $0 }?.resolve(.success(())) }
    }

    private struct Guarded {
        var flights: [String: Flight] = [:]
        var ending: SanguineError?
        var following: ObservationToken?
    }

    let call: ServerCall
    let balance: BalanceKeeper
    let store: ClientStore
    let configuration: SanguineClient.Configuration
    private let guarded = Mutex(Guarded())

    init(
        call: ServerCall,
        balance: BalanceKeeper,
        store: ClientStore,
        configuration: SanguineClient.Configuration
    ) {
        self.call = call
        self.balance = balance
        self.store = store
        self.configuration = configuration
    }

    /// Goes on with the queued calls that an earlier process has left.
    func start() {
        guard call.server != nil, configuration.refusal == nil else { return }
        let following = configuration.connectivity.isOnline.follow { [weak self] in
            self?.networkChanged()
        }
        guarded.withLock { $0.following = following }
        for open in balance.openCalls where open.isQueued && !open.hasEnded {
            let body = try? store.state(Self.stateName(open.key))
            guard let body else {
                // It was never stored whole, or its answer has come: the balance asks.
                balance.ended { state in
                    state.gaveUp(open.key)
                    guard open.state == .waiting else { return }
                    state.refused(open.key)
                    state.forget(open.key)
                }
                continue
            }
            let sending = Sending(
                key: open.key,
                function: open.function,
                body: body,
                isQueued: true,
                isStored: true
            )
            launch(sending, isWanted: false, mayHaveHappened: open.state != .waiting)
        }
    }

    /// Ends the waiting of queued calls; they are sent when their user is there again.
    func end(_ reason: SanguineError) {
        let (flights, following) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            defer { guarded.following = nil }
            return (Array(guarded.flights.values), guarded.following)
        }
        for flight in flights { flight.rest.withLock { $0 }?.resolve(.failure(reason)) }
        withExtendedLifetime(following) {}  // Released here, under no lock.
    }

    /// Whether a call is on its way that nobody awaits.
    var isSending: Bool {
        guarded.withLock { $0.flights.values }.contains { flight in
            !flight.isGiven && flight.rest.withLock { $0 } == nil
        }
    }

    // MARK: - Beginning

    /// Begins a call.
    ///
    /// When this returns the balance shows its hold; nothing has been waited for, but for the disk
    /// if the call waits for a network.
    ///
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing was changed.
    func begin<Call: FunctionCall>(
        _ function: Call
    ) throws(SanguineError) -> BegunCall<Call.Output> {
        let isOffline = try isOffline(Call.self)
        var sending = try sending(function)
        sending.isQueued = Call.whenOffline == .queue
        return BegunCall(
            key: sending.key,
            flight: try begin(sending, Self.terms(Call.self), isWaiting: isOffline),
            caller: self
        )
    }

    /// Begins a call whose answer is read while it is made.
    ///
    /// One that waits for a network comes in one part.
    func open<Call: FunctionCall>(_ function: Call) throws(SanguineError) -> CallStream {
        let isOffline = try isOffline(Call.self)
        var sending = try sending(function)
        if isOffline {
            sending.isQueued = true
            let flight = try begin(sending, Self.terms(Call.self), isWaiting: true)
            return CallStream(sending, .flight(flight), self)
        }
        try began(sending, Self.terms(Call.self), isWaiting: false)
        let stream = CallStream(sending, .server, self)
        stream.open()
        return stream
    }

    private func begin(
        _ sending: Sending,
        _ terms: SpendingState.Terms,
        isWaiting: Bool
    ) throws(SanguineError) -> Flight {
        try began(sending, terms, isWaiting: isWaiting)
        var sending = sending
        if isWaiting {
            do throws(StoreError) {
                try store.setState(Self.stateName(sending.key), sending.body)
            } catch {
                balance.ended { state in
                    state.refused(sending.key)
                    state.forget(sending.key)
                }
                throw .store(error)
            }
            balance.persist()
            sending.isStored = true
        }
        return launch(sending, isWanted: true, mayHaveHappened: false)
    }

    private func began(
        _ sending: Sending,
        _ terms: SpendingState.Terms,
        isWaiting: Bool
    ) throws(SanguineError) {
        let open = OpenCall(
            key: sending.key,
            function: sending.function,
            begunAt: configuration.clock.now(),
            state: isWaiting ? .waiting : .running,
            isQueued: sending.isQueued
        )
        try balance.began(open, terms)
    }

    /// Whether the device has no network, as far as it knows.
    ///
    /// - Throws: The refusal of a call that does not wait for one.
    private func isOffline<Call: FunctionCall>(_: Call.Type) throws(SanguineError) -> Bool {
        if let refusal = configuration.refusal { throw refusal }
        guard call.server != nil else { throw .notConfigured("'server'") }
        guard !configuration.connectivity.isOnline.value else { return false }
        guard Call.whenOffline == .queue else {
            throw .transport(.offline("the device has no network"))
        }
        return true
    }

    private func sending<Call: FunctionCall>(_ function: Call) throws(SanguineError) -> Sending {
        var random = configuration.random
        return Sending(
            key: Identifier(at: configuration.clock.now(), using: &random).description,
            function: Call.name,
            body: try Self.body(function)
        )
    }

    /// The body of a call, and of a quote.
    static func body<Call: FunctionCall>(_ function: Call) throws(SanguineError) -> Data {
        do {
            return try WireCoding.encode(FunctionRequest(input: function.input))
        } catch {
            throw .decoding("the input of '\(Call.name)' cannot be encoded: \(error)")
        }
    }

    private static func terms<Call: FunctionCall>(_: Call.Type) -> SpendingState.Terms {
        SpendingState.Terms(expectedCost: Call.expectedCost, quota: Call.rules.price.quota)
    }

    // MARK: - Finding again

    /// The flight of a call, which is looked for on the server if it is none of this process.
    ///
    /// - Throws: Why the call has failed, if that is known; ``SanguineError/notConfigured(_:)``.
    func find(_ key: String) throws(SanguineError) -> Flight {
        if let flight = join(key) { return flight }
        let sending = try finding(key)
        return launch(sending, isWanted: true, mayHaveHappened: true)
    }

    /// The answer of a call, read while it is made.
    func reopen(_ key: String) throws(SanguineError) -> CallStream {
        let flight = join(key)
        let sending = flight == nil ? try finding(key) : Sending(key: key, function: "", body: nil)
        return CallStream(sending, flight.map { .flight($0) } ?? .server, self)
    }

    private func join(_ key: String) -> Flight? {
        let flight = guarded.withLock { $0.flights[key] }
        flight?.isWanted.withLock { $0 = true }
        return flight
    }

    private func finding(_ key: String) throws(SanguineError) -> Sending {
        if let refusal = configuration.refusal { throw refusal }
        guard call.server != nil else { throw .notConfigured("'server'") }
        let open = balance.openCall(key)
        if case .failed(let problem) = open?.state {
            balance.ended { $0.forget(key) }
            throw .problem(problem)
        }
        return Sending(key: key, function: open?.function ?? "", body: nil)
    }

    /// Somebody gives up the waiting for a flight.
    func left(_ flight: Flight) {
        if flight.outcome.waiting == 0 { flight.isWanted.withLock { $0 = false } }
    }

    // MARK: - Cancelling

    /// Ends a call, for good.
    ///
    /// - Returns: What it was charged.
    func cancel(_ key: String) async throws(SanguineError) -> Int64 {
        if guarded.withLock({ $0.flights[key] })?.withdraw() == true { return 0 }
        var failures = 0
        while true {
            do throws(SanguineError) {
                let ending = try await call.call(
                    "DELETE",
                    Self.path(key),
                    as: CallEnding.self
                )
                .value
                let now = configuration.clock.now()
                balance.ended { $0.cancelled(key, ending, at: now) }
                return ending.charged
            } catch {
                failures += 1
                var random = configuration.random
                let schedule = RetrySchedule(attempts: BalanceLimits.callAttempts)
                let delay = schedule.delay(afterFailures: failures, of: error, using: &random)
                guard let delay, (try? await configuration.delay.sleep(for: delay)) != nil else {
                    throw error
                }
            }
        }
    }

    // MARK: - Flights

    @discardableResult
    private func launch(_ sending: Sending, isWanted: Bool, mayHaveHappened: Bool) -> Flight {
        let mayHaveBeenSent = !sending.isQueued || mayHaveHappened
        let flight = Flight(isWanted: isWanted, mayHaveBeenSent: mayHaveBeenSent)
        guarded.withLock { $0.flights[sending.key] = flight }
        Task {
            await fly(flight, sending, CallAttempts(mayHaveHappened: mayHaveHappened))
        }
        return flight
    }

    private func fly(_ flight: Flight, _ sending: Sending, _ first: CallAttempts) async {
        if sending.body != nil {
            // Stored before it is sent: a kill from here on does not lose the hold.
            if sending.isQueued, !sending.isStored {
                // A disk that fails makes it a call like any other.
                try? store.setState(Self.stateName(sending.key), sending.body)
            }
            balance.persist()
        }
        let outcome = await outcome(of: sending, first, flight)
        guarded.withLock { $0.flights[sending.key] = nil }
        let isOver = guarded.withLock { $0.ending != nil }
        if sending.isQueued, !isOver { try? store.setState(Self.stateName(sending.key), nil) }
        flight.outcome.resolve(outcome)
    }

    private func outcome(
        of sending: Sending,
        _ first: CallAttempts,
        _ flight: Flight
    ) async -> Result<Data, SanguineError> {
        var attempts = first
        var failures = 0
        while true {
            if sending.isQueued {
                do throws(SanguineError) {
                    try await awaitNetwork(flight, afterFailures: failures)
                } catch {
                    return .failure(withdrawn(sending, error, flight))
                }
                balance.sends(sending.key)
            }
            switch await round(sending, &attempts, flight) {
            case .success(let data): return .success(data)
            case .failure(let end):
                if sending.isQueued, end.isPassing {
                    failures += 1
                    attempts = CallAttempts(mayHaveHappened: attempts.mayHaveHappened)
                    continue
                }
                return .failure(ended(sending, end, isGiven: flight.isGiven))
            }
        }
    }

    /// How the sendings of a call have failed.
    struct Failure: Error {
        let verdict: CallAttempts.Verdict
        let error: SanguineError
        let head: Int64?

        /// Whether it has to do with the way to the server, and not with the call.
        fileprivate var isPassing: Bool {
            guard verdict == .refused || verdict == .unknown else { return false }
            return switch error {
            case .transport(.offline), .transport(.timedOut), .transport(.interrupted): true
            case .problem(let problem):
                problem.code == .operationInProgress || problem.code == .rateLimited
                    || problem.status == 408 || problem.status >= 500
            default: false
            }
        }
    }

    /// Sends a call as often as it takes, and with a short patience.
    private func round(
        _ sending: Sending,
        _ attempts: inout CallAttempts,
        _ flight: Flight
    ) async -> Result<Data, Failure> {
        while true {
            let head = HeadNotingTransport(call.exchange.transport)
            var verdict: CallAttempts.Verdict
            let failure: SanguineError
            var random = configuration.random
            do throws(SanguineError) {
                _ = try await call.authorizer.accessToken()
                do throws(SanguineError) {
                    let response = try await send(sending, through: head)
                    try settle(response.body, sending, isGiven: flight.isGiven)
                    return .success(response.body)
                } catch {
                    failure = error
                    verdict = attempts.failed(error, using: &random)
                }
            } catch {
                failure = error
                verdict = attempts.notSent()
            }
            if case .again(let delay) = verdict {
                if (try? await configuration.delay.sleep(for: delay)) != nil { continue }
                verdict = .unknown
            }
            return .failure(Failure(verdict: verdict, error: failure, head: head.last))
        }
    }

    private func send(
        _ sending: Sending,
        through transport: HeadNotingTransport
    ) async throws(SanguineError) -> TransportResponse {
        let noting = ServerCall(
            server: call.server,
            exchange: Exchange(transport: transport, clock: call.exchange.clock),
            authorizer: call.authorizer
        )
        return try await noting.send(try request(sending))
    }

    /// The request of a call, the same each time.
    func request(
        _ sending: Sending,
        headers: [String: String] = [:]
    ) throws(SanguineError) -> TransportRequest {
        guard let body = sending.body else {
            return try TransportRequest(
                base: call.server,
                path: Self.path(sending.key),
                headers: headers,
                timeout: BalanceLimits.callTimeout
            )
        }
        return try TransportRequest(
            method: "POST",
            base: call.server,
            path: "/v1/functions/\(sending.function)",
            headers: headers.merging(["Idempotency-Key": sending.key]) { $1 },
            json: body,
            timeout: BalanceLimits.callTimeout
        )
    }

    private static func path(_ key: String) -> String {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/;"))
        return "/v1/calls/\(key.addingPercentEncoding(withAllowedCharacters: allowed) ?? key)"
    }

    private static func stateName(_ key: String) -> String { "call \(key)" }
}

// MARK: - Waiting for a network

extension FunctionCaller {
    private func networkChanged() {
        let flights = guarded.withLock { Array($0.flights.values) }
        for flight in flights { flight.wake() }
    }

    /// Waits for a network and, after a failure, for a while.
    ///
    /// - Throws: Why there is nothing to wait for any more.
    private func awaitNetwork(
        _ flight: Flight,
        afterFailures failures: Int
    ) async throws(SanguineError) {
        var mustRest = failures > 0
        while true {
            let rest = OneShot<Void>()
            flight.rest.withLock { $0 = rest }
            defer { flight.rest.withLock { $0 = nil } }
            if let ending = guarded.withLock({ $0.ending }) { throw ending }
            // Looked at after the rest is known: a change from here on ends it.
            let isOnline = configuration.connectivity.isOnline.value
            guard mustRest || !isOnline, !flight.isWithdrawn else { break }
            var random = configuration.random
            let pause = BalanceLimits.queue.backoff(afterFailures: failures, using: &random)
            let timer = Task { [delay = configuration.delay] in
                guard isOnline, (try? await delay.sleep(for: pause)) != nil else { return }
                rest.resolve(.success(()))
            }
            defer { timer.cancel() }
            try await rest.value()
            // Time has passed, or the network is another one.
            mustRest = false
        }
        guard flight.sends() else {
            throw .problem(Problem(.callCancelled, "Call again with a new key: this was not sent."))
        }
    }

    /// A call that waited for a network will not be sent by this process.
    private func withdrawn(
        _ sending: Sending,
        _ reason: SanguineError,
        _ flight: Flight
    ) -> SanguineError {
        if case .problem = reason {
            balance.ended { state in
                state.refused(sending.key)
                state.forget(sending.key)
            }
        }
        return reason
    }
}

// MARK: - Ends

extension FunctionCaller {
    /// Settles the balance first, from its part of the answer: an output that the app declared
    /// otherwise costs all the same.
    ///
    /// - Parameters:
    ///   - body: The answer.
    ///   - sending: The call.
    ///   - isGiven: Whether the app is given it.
    /// - Throws: ``SanguineError/decoding(_:)``; ``SanguineError/userChanged``.
    func settle(_ body: Data, _ sending: Sending, isGiven: Bool) throws(SanguineError) {
        let charge = try WireCoding.decode(Charge.self, from: body)
        let now = configuration.clock.now()
        balance.ended { state in
            state.answered(
                sending.key,
                function: sending.function,
                charge.answer,
                charge.quota,
                isGiven: isGiven,
                at: now
            )
        }
        try call.authorizer.check()
    }

    /// Takes in how the sendings of a call have ended; returns what is said of that.
    func ended(_ sending: Sending, _ failure: Failure, isGiven: Bool) -> SanguineError {
        let error = failure.error
        balance.ended { state in
            switch failure.verdict {
            case .refused where sending.body != nil: state.refused(sending.key)
            case .released: state.released(sending.key, head: failure.head)
            case .refused, .charged, .unknown, .again: state.gaveUp(sending.key)
            }
            guard failure.verdict != .unknown else { return }
            if case .problem(let problem) = error {
                state.failed(sending.key, problem, isGiven: isGiven)
            } else {
                state.failed(sending.key, nil, isGiven: isGiven)
            }
        }
        guard failure.verdict == .unknown else { return error }
        switch error {
        case .userChanged, .closed, .cancelled, .decoding: return error
        default: return .outcomeUnknown(operation: sending.key)
        }
    }

    /// A call that nobody reads could not be begun, or has broken off.
    func failedUnread(_ sending: Sending, _ error: SanguineError) {
        var (attempts, random) = (CallAttempts(), configuration.random)
        let verdict = attempts.failed(error, using: &random)
        if case .again = verdict { return detached(sending) }
        _ = ended(
            sending,
            Failure(verdict: verdict, error: error, head: nil),
            isGiven: false
        )
    }

    /// Nobody reads a call's answer any more; it goes on, and the balance asks what became of it.
    func detached(_ sending: Sending) { balance.ended { $0.gaveUp(sending.key) } }
}

/// A call that was begun, and its answer.
struct BegunCall<Output: Codable & Sendable>: Sendable {
    let key: String
    let flight: FunctionCaller.Flight
    let caller: FunctionCaller

    /// The answer, as soon as it is there.
    nonisolated(nonsending) func value() async throws(SanguineError) -> FunctionResult<Output> {
        let body: Data
        do throws(SanguineError) {
            body = try await flight.outcome.value()
        } catch {
            if error == .cancelled { caller.left(flight) }
            throw error
        }
        return try WireCoding.decode(FunctionResult<Output>.self, from: body)
    }
}

/// The part of a function's answer that does not depend on the function.
private struct Charge: Decodable {
    let charged: Int64
    let tokensRemaining: Int64
    let held: Int64
    let head: Int64
    let cached: Bool
    let quota: Quota?

    var answer: CallAnswer {
        CallAnswer(
            charged: charged,
            available: tokensRemaining,
            held: held,
            head: head,
            cached: cached
        )
    }
}

/// Notes the `Sanguine-Head` of answers, refusals among them, and passes everything on.
private final class HeadNotingTransport: HTTPTransport {
    private let transport: any HTTPTransport
    // The only mutable state, guarded by the mutex.
    private let noted = Mutex<Int64?>(nil)

    init(_ transport: any HTTPTransport) { self.transport = transport }

    /// The last answer's number, or `nil` if it had none.
    var last: Int64? { noted.withLock { $0 } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let response = try await transport.send(request)
        let head = response.header("sanguine-head").flatMap { Int64($0) }
        noted.withLock { $0 = head }
        return response
    }
}
