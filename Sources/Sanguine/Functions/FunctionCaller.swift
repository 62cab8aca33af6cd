import Foundation
import Logging
import SanguineModel
import Synchronization

/// Makes metered calls: shows the hold, stores it, sends the call and follows it to its end.
///
/// A call runs in a task of its own, see ``CallFlight``. A cancelled caller stops waiting, but the
/// call continues, because the server charges for it all the same. The request of a call that may
/// wait for a network is stored with its hold, and is sent until it is answered, by this process or
/// a later one.
///
/// Mutable state: `guarded`, by its mutex, held during no call.
final class FunctionCaller: Sendable {
    private struct Guarded {
        var flights: [String: CallFlight] = [:]
        /// The streams whose first request is in progress.
        var openings: [String: OneShot<Void>] = [:]
        var ending: SanguineError?
        var following: ObservationToken?
    }

    let sender: CallSender
    let balance: BalanceKeeper

    /// Allows a request to sign the user in: the app asks for something.
    func allowSignIn() { call.authorizer.allowSignIn() }

    var call: ServerCall { sender.call }
    var configuration: SanguineClient.Configuration { sender.configuration }
    private let guarded = Mutex(Guarded())

    init(
        call: ServerCall,
        balance: BalanceKeeper,
        configuration: SanguineClient.Configuration
    ) {
        sender = CallSender(call: call, configuration: configuration)
        self.balance = balance
    }

    /// Continues the queued calls of an earlier process.
    func start() {
        guard call.server != nil, configuration.refusal == nil else { return }
        let following = configuration.connectivity.isOnline.follow { [weak self] in
            self?.networkChanged()
        }
        guarded.withLock { $0.following = following }
        for open in balance.calls where open.isQueued && !open.hasEnded {
            let stored: Data?
            do throws(StoreError) {
                stored = try balance.request(of: open.key)
            } catch {
                // The call stays in the queue for the next launch.
                configuration.logger.error(
                    "The stored request of a queued call could not be read.",
                    metadata: ["key": "\(open.key)", "reason": "\(error)"]
                )
                continue
            }
            guard let body = stored else {
                // The request was never stored, or the call was answered: the balance asks for its
                // outcome.
                balance.ended { state in
                    state.gaveUp(open.key)
                    state.leavesQueue(open.key)
                    guard open.state == .waiting else { return }
                    state.refused(open.key)
                    state.forget(open.key)
                }
                continue
            }
            let sending = CallSending(
                key: open.key,
                function: open.function,
                body: body,
                isQueued: true
            )
            allowSignIn()
            let hasBeenSent = open.state != .waiting
            let flight = enter(sending, isWanted: false, mayHaveHappened: hasBeenSent)
            launch(flight, sending, mayHaveHappened: hasBeenSent)
        }
    }

    /// Ends the waiting of queued calls; they are sent when their user returns.
    func end(_ reason: SanguineError) {
        let (flights, following) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            defer { guarded.following = nil }
            return (Array(guarded.flights.values), guarded.following)
        }
        for flight in flights { flight.rest.withLock { $0 }?.resolve(.failure(reason)) }
        withExtendedLifetime(following) {}  // Released here, under no lock.
    }

    /// Whether a call without a waiting caller is being sent.
    var isSending: Bool {
        guarded.withLock { $0.flights.values }.contains { flight in
            !flight.isAwaited && flight.rest.withLock { $0 } == nil
        }
    }

    // MARK: - Beginning

    /// Begins a call.
    ///
    /// When this returns, the balance shows its hold. The method waits for nothing but the disk,
    /// and for that only if the call waits for a network.
    ///
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing has changed.
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

    /// Begins a call whose answer is read while it is generated.
    ///
    /// The answer to a call that waits for a network comes in one part.
    func open<Call: FunctionCall>(_ function: Call) throws(SanguineError) -> CallStream {
        let isOffline = try isOffline(Call.self)
        var sending = try sending(function)
        if isOffline {
            sending.isQueued = true
            let flight = try begin(sending, Self.terms(Call.self), isWaiting: true)
            return CallStream(sending, .flight(flight), self)
        }
        // Before the call is listed, so that a key from the list finds it.
        opens(sending.key)
        do throws(SanguineError) {
            try began(sending, Self.terms(Call.self), isWaiting: false)
        } catch {
            opened(sending.key)
            throw error
        }
        let stream = CallStream(sending, .server, self)
        stream.open()
        return stream
    }

    private func begin(
        _ sending: CallSending,
        _ terms: SpendingState.Terms,
        isWaiting: Bool
    ) throws(SanguineError) -> CallFlight {
        // Before the call is listed, so that a key from the list finds it running.
        let flight = enter(sending, isWanted: true, mayHaveHappened: false)
        do throws(SanguineError) {
            try began(sending, terms, isWaiting: isWaiting)
            if isWaiting { try store(sending) }
        } catch {
            leave(flight, sending.key)
            flight.outcome.resolve(.failure(error))
            throw error
        }
        launch(flight, sending, mayHaveHappened: false)
        return flight
    }

    /// Stores a call that waits for a network, with its request.
    private func store(_ sending: CallSending) throws(SanguineError) {
        do throws(StoreError) {
            try balance.write()
        } catch {
            balance.ended { state in
                state.refused(sending.key)
                state.forget(sending.key)
            }
            throw .store(error)
        }
    }

    private func began(
        _ sending: CallSending,
        _ terms: SpendingState.Terms,
        isWaiting: Bool
    ) throws(SanguineError) {
        let open = OpenCall(
            key: sending.key,
            function: sending.function,
            begunAt: configuration.clock.now(),
            state: isWaiting ? .waiting : .running,
            isQueued: sending.isQueued,
            request: sending.body
        )
        try balance.began(open, terms)
    }

    /// Returns whether the device has no network, as far as it knows.
    ///
    /// - Throws: The error of a call that does not wait for a network.
    private func isOffline<Call: FunctionCall>(_: Call.Type) throws(SanguineError) -> Bool {
        if let refusal = configuration.refusal { throw refusal }
        guard call.server != nil else { throw .notConfigured("'server'") }
        allowSignIn()
        guard !configuration.connectivity.isOnline.value else { return false }
        guard Call.whenOffline == .queue else {
            throw .transport(.offline("the device has no network"))
        }
        return true
    }

    private func sending<Call: FunctionCall>(_ function: Call) throws(SanguineError) -> CallSending
    {
        var random = configuration.random
        return CallSending(
            key: Identifier(at: configuration.clock.now(), using: &random).description,
            function: Call.name,
            body: try Self.body(function),
            tokensInstead: Call.rules.price.quota?.otherwise
        )
    }

    /// Returns the request body of a call or a quote.
    static func body<Call: FunctionCall>(_ function: Call) throws(SanguineError) -> Data {
        do {
            return try WireCoding.encode(
                FunctionRequest(
                    input: function.input,
                    attachments: function.attachments.isEmpty ? nil : function.attachments
                )
            )
        } catch {
            throw .decoding("the input of '\(Call.name)' cannot be encoded: \(error)")
        }
    }

    /// Returns the declared terms of a function's calls.
    static func terms<Call: FunctionCall>(_: Call.Type) -> SpendingState.Terms {
        SpendingState.Terms(expectedCost: Call.expectedCost, quota: Call.rules.price.quota)
    }

    /// Records that a stream is about to be opened.
    func opens(_ key: String) { guarded.withLock { $0.openings[key] = OneShot() } }

    /// Records that the opening of a stream has ended.
    func opened(_ key: String) {
        guarded.withLock { $0.openings.removeValue(forKey: key) }?.resolve(.success(()))
    }

    /// Waits until the server knows a call that this process is opening: an earlier request for it
    /// would return `not_found`.
    func isOpened(_ key: String) async {
        try? await guarded.withLock { $0.openings[key] }?.value()
    }

    // MARK: - Finding again

    /// Returns the running call of a key, or looks it up on the server if this process has none.
    ///
    /// - Throws: Why the call has failed, if that is known; ``SanguineError/notConfigured(_:)``.
    func find(_ key: String) throws(SanguineError) -> CallFlight {
        // In one step, and before the call's state is checked: if the call ends in between, `fresh`
        // gets the outcome.
        let fresh = CallFlight(isWanted: true, mayHaveBeenSent: true)
        let flight = guarded.withLock { guarded in
            let flight = guarded.flights[key] ?? fresh
            guarded.flights[key] = flight
            return flight
        }
        flight.isWanted.withLock { $0 = true }
        guard flight === fresh else { return flight }
        let sending: CallSending
        do throws(SanguineError) {
            sending = try finding(key)
        } catch {
            leave(flight, key)
            flight.outcome.resolve(.failure(error))
            throw error
        }
        // Read as a stream: the server reports the end by itself, without polling.
        let stream = CallStream(sending, .server, self)
        Task {
            let outcome: Result<Data, SanguineError>
            do throws(SanguineError) {
                outcome = .success(try await stream.body())
            } catch {
                outcome = .failure(error)
            }
            flight.outcome.resolve(outcome)
            leave(flight, key)
        }
        return flight
    }

    private func leave(_ flight: CallFlight, _ key: String) {
        guarded.withLock { guarded in
            if guarded.flights[key] === flight { guarded.flights[key] = nil }
        }
    }

    /// Passes the answer from a stream of this process to callers that wait for it by key.
    func arrived(_ key: String, _ outcome: Result<Data, SanguineError>) {
        guarded.withLock { $0.flights[key] }?.outcome.resolve(outcome)
    }

    /// Returns the answer of an earlier call, read while it is generated.
    func reopen(_ key: String) throws(SanguineError) -> CallStream {
        let flight = join(key)
        let sending =
            flight == nil ? try finding(key) : CallSending(key: key, function: "", body: nil)
        return CallStream(sending, flight.map { .flight($0) } ?? .server, self)
    }

    private func join(_ key: String) -> CallFlight? {
        let flight = guarded.withLock { $0.flights[key] }
        flight?.isWanted.withLock { $0 = true }
        return flight
    }

    private func finding(_ key: String) throws(SanguineError) -> CallSending {
        if let refusal = configuration.refusal { throw refusal }
        guard call.server != nil else { throw .notConfigured("'server'") }
        allowSignIn()
        let open = balance.openCall(key)
        if case .failed(let problem) = open?.state {
            balance.ended { $0.forget(key) }
            throw .problem(problem.ofEndedCall)
        }
        return CallSending(key: key, function: open?.function ?? "", body: nil)
    }

    /// Records that a caller no longer waits for a running call.
    func left(_ flight: CallFlight) {
        if flight.outcome.waiting == 0 { flight.isWanted.withLock { $0 = false } }
    }

    // MARK: - Cancelling

    /// Ends a call, for good.
    ///
    /// - Returns: The charge.
    func cancel(_ key: String) async throws(SanguineError) -> Int64 {
        if guarded.withLock({ $0.flights[key] })?.withdraw() == true { return 0 }
        allowSignIn()
        await isOpened(key)
        let ending = try await sender.repeatedly { () async throws(SanguineError) in
            try await call.call("DELETE", CallSender.path(key), as: CallEnding.self)
        }
        let now = configuration.clock.now()
        balance.ended { $0.cancelled(key, ending.value, epoch: ending.epoch, at: now) }
        return ending.value.charged
    }

    // MARK: - Running calls

    /// Registers a running call under its key.
    private func enter(
        _ sending: CallSending,
        isWanted: Bool,
        mayHaveHappened: Bool
    ) -> CallFlight {
        let mayHaveBeenSent = !sending.isQueued || mayHaveHappened
        let flight = CallFlight(isWanted: isWanted, mayHaveBeenSent: mayHaveBeenSent)
        guarded.withLock { $0.flights[sending.key] = flight }
        return flight
    }

    private func launch(_ flight: CallFlight, _ sending: CallSending, mayHaveHappened: Bool) {
        Task {
            await fly(flight, sending, CallAttempts(mayHaveHappened: mayHaveHappened))
        }
    }

    private func fly(_ flight: CallFlight, _ sending: CallSending, _ first: CallAttempts) async {
        // Stored before it is sent: from here on a crash does not lose the hold. If the disk fails,
        // a queued call is treated like any other.
        balance.persist()
        let outcome = await outcome(of: sending, first, flight)
        let isOver = guarded.withLock { $0.ending != nil }
        if sending.isQueued, !isOver { balance.ended { $0.leavesQueue(sending.key) } }
        // In this order: once the call is no longer registered, the balance has its outcome.
        flight.outcome.resolve(outcome)
        leave(flight, sending.key)
    }

    private func outcome(
        of sending: CallSending,
        _ first: CallAttempts,
        _ flight: CallFlight
    ) async -> Result<Data, SanguineError> {
        var attempts = first
        var failures = 0
        while true {
            if sending.isQueued {
                do throws(SanguineError) {
                    try await awaitNetwork(flight, afterFailures: failures)
                } catch {
                    return .failure(withdrawn(sending, error))
                }
                balance.sends(sending.key)
            }
            switch await send(sending, &attempts) {
            case .success(let data): return .success(data)
            case .failure(let end):
                if sending.isQueued, end.isPassing {
                    failures += 1
                    attempts = CallAttempts(mayHaveHappened: attempts.mayHaveHappened)
                    continue
                }
                return .failure(ended(sending, end))
            }
        }
    }

    private func send(
        _ sending: CallSending,
        _ attempts: inout CallAttempts
    ) async -> Result<Data, CallFailure> {
        await sender.round(sending, &attempts) { response throws(SanguineError) in
            try settle(whole: response.body, response.epoch, sending)
        }
    }
}

// MARK: - Waiting for a network

extension FunctionCaller {
    private func networkChanged() {
        let flights = guarded.withLock { Array($0.flights.values) }
        for flight in flights { flight.wake() }
    }

    /// Waits for a network and, after a failure, for the backoff.
    ///
    /// - Throws: Why the call must not wait any longer.
    private func awaitNetwork(
        _ flight: CallFlight,
        afterFailures failures: Int
    ) async throws(SanguineError) {
        var mustRest = failures > 0
        while true {
            let rest = OneShot<Void>()
            flight.rest.withLock { $0 = rest }
            defer { flight.rest.withLock { $0 = nil } }
            if let ending = guarded.withLock({ $0.ending }) { throw ending }
            // Checked after `rest` is set: any later change ends it.
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
            // The backoff has ended, or the network has changed.
            mustRest = false
        }
        guard flight.sends() else {
            throw .problem(Problem(.callCancelled, "This was not sent. Call again with a new key."))
        }
    }

    /// Records that this process will not send a call that waited for a network.
    private func withdrawn(_ sending: CallSending, _ reason: SanguineError) -> SanguineError {
        if case .problem = reason {
            balance.ended { state in
                state.refused(sending.key)
                state.forget(sending.key)
            }
        }
        return reason
    }
}
