import Foundation
import Logging
import SanguineModel
import Synchronization

/// Makes metered calls: shows the hold, stores it, sends the call and follows it to its end.
///
/// A call runs in its own task, see ``CallInProgress``. A cancelled caller stops waiting, but the
/// call continues, because the server charges for it all the same. The request of a call that may
/// wait for a network is stored with its hold, and is sent until it is answered, by this process or
/// a later one.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during a call.
final class FunctionCaller: Sendable {
    private struct Guarded {
        var callsInProgress: [String: CallInProgress] = [:]
        /// The streams whose first request is in progress.
        var openings: [String: OneShot<Void>] = [:]
        var ending: SanguineError?
        var following: ObservationToken?
    }

    let sender: CallSender
    let balance: BalanceKeeper
    /// Receives the refusals for exhausted quotas; `nil` for none.
    let analytics: ClientAnalytics?
    /// Lists the functions that were called; `nil` for none.
    private let registry: QueryRegistry?
    /// Shows the calls in threads; `nil` without threads.
    let messages: PendingMessages?

    /// Allows a request to sign the user in: the app asks for something.
    func allowSignIn() { call.authorizer.allowSignIn() }

    var call: ServerCall { sender.call }
    var configuration: SanguineClient.Configuration { sender.configuration }
    private let guarded = Mutex(Guarded())

    init(
        call: ServerCall,
        balance: BalanceKeeper,
        configuration: SanguineClient.Configuration,
        analytics: ClientAnalytics? = nil,
        registry: QueryRegistry? = nil,
        switches: SwitchBoard? = nil,
        steps: StepLog? = nil,
        messages: PendingMessages? = nil
    ) {
        self.analytics = analytics
        self.registry = registry
        self.messages = messages
        sender = CallSender(
            call: call,
            configuration: configuration,
            switches: switches,
            steps: steps
        )
        self.balance = balance
    }

    convenience init(
        call: ServerCall,
        balance: BalanceKeeper,
        services: ClientServices,
        messages: PendingMessages
    ) {
        self.init(
            call: call,
            balance: balance,
            configuration: services.configuration,
            analytics: services.metrics.analytics,
            registry: services.queries.entries.registry,
            switches: services.switches,
            steps: services.metrics.steps,
            messages: messages
        )
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
            let sending = CallRequest(
                key: open.key,
                function: open.function,
                body: body,
                isQueued: true
            )
            allowSignIn()
            let hasBeenSent = open.state != .waiting
            let callInProgress = enter(sending, isWanted: false, mayHaveHappened: hasBeenSent)
            launch(callInProgress, sending, mayHaveHappened: hasBeenSent)
        }
    }

    /// Ends the waiting of queued calls; they are sent when their user returns.
    func end(_ reason: SanguineError) {
        let (callsInProgress, following) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            defer { guarded.following = nil }
            return (Array(guarded.callsInProgress.values), guarded.following)
        }
        for callInProgress in callsInProgress {
            callInProgress.wakeSignal.withLock { $0 }?.resolve(.failure(reason))
        }
        withExtendedLifetime(following) {}  // Released here, with no lock held.
    }

    /// Whether a call without a waiting caller is being sent.
    var isSending: Bool {
        guarded.withLock { $0.callsInProgress.values }.contains { callInProgress in
            !callInProgress.isAwaited && callInProgress.wakeSignal.withLock { $0 } == nil
        }
    }

    // MARK: - Beginning

    /// Begins a call.
    ///
    /// When this returns, the balance shows the call's hold, and its thread the question. The
    /// method waits only for the disk, and only if the call waits for a network.
    ///
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing has changed.
    func begin<Call: FunctionCall>(
        _ function: Call,
        in thread: RecordID? = nil
    ) throws(SanguineError) -> StartedCall<Call.Output> {
        let isOffline = try isOffline(Call.self)
        var sending = try sending(function, in: thread)
        sending.isQueued = Call.whenOffline == .queue
        return StartedCall(
            key: sending.key,
            callInProgress: try begin(sending, Self.terms(Call.self), isWaiting: isOffline),
            caller: self
        )
    }

    /// Begins a call whose answer is read while it is generated.
    ///
    /// The answer to a call that waits for a network comes in one part.
    func open<Call: FunctionCall>(
        _ function: Call,
        in thread: RecordID? = nil
    ) throws(SanguineError) -> CallStream {
        let isOffline = try isOffline(Call.self)
        var sending = try sending(function, in: thread)
        if isOffline {
            sending.isQueued = true
            let callInProgress = try begin(sending, Self.terms(Call.self), isWaiting: true)
            return CallStream(sending, .inProgress(callInProgress), self)
        }
        // Done before the call is listed, so that a key from the list finds it.
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
        _ sending: CallRequest,
        _ terms: SpendingState.Terms,
        isWaiting: Bool
    ) throws(SanguineError) -> CallInProgress {
        // Done before the call is listed, so that a key from the list finds it running.
        let callInProgress = enter(sending, isWanted: true, mayHaveHappened: false)
        do throws(SanguineError) {
            try began(sending, terms, isWaiting: isWaiting)
            if isWaiting { try store(sending) }
        } catch {
            leave(callInProgress, sending.key)
            callInProgress.outcome.resolve(.failure(error))
            throw error
        }
        launch(callInProgress, sending, mayHaveHappened: false)
        return callInProgress
    }

    /// Stores a call that waits for a network, with its request.
    private func store(_ sending: CallRequest) throws(SanguineError) {
        do throws(StoreError) {
            if sending.exchange != nil { try messages?.write() }
            try balance.write()
        } catch {
            remove(unsent: sending)
            throw .store(error)
        }
    }

    /// Removes a call that was never sent.
    private func remove(unsent sending: CallRequest) {
        balance.ended { state in
            state.refused(sending.key)
            state.forget(sending.key)
        }
        messages?.remove(sending.key)
    }

    private func began(
        _ sending: CallRequest,
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
        var terms = terms
        terms.isWithheld = sender.switches?.withholds(function: sending.function) ?? false
        try balance.began(open, terms)
        if var exchange = sending.exchange {
            exchange.isWaiting = isWaiting
            do throws(SanguineError) {
                try messages?.began(exchange)
            } catch {
                remove(unsent: sending)
                throw error
            }
        }
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

    private func sending<Call: FunctionCall>(
        _ function: Call,
        in thread: RecordID?
    ) throws(SanguineError) -> CallRequest {
        registry?.saw(Call.self)
        var random = configuration.random
        let now = configuration.clock.now()
        var sending = CallRequest(
            key: Identifier(at: now, using: &random).description,
            function: Call.name,
            body: try Self.body(function, in: thread),
            tokensInstead: Call.rules.price.quota?.otherwise
        )
        if let thread = thread?.ofThread, let question = try? JSONValue(encoding: function.input) {
            sending.exchange = PendingExchange(
                key: sending.key,
                in: thread,
                of: Call.name,
                MessageContent(question: question),
                area: ChatThread.area(in: question),
                attachments: function.attachments,
                at: now
            )
        }
        return sending
    }

    /// Returns the request body of a call or a quote.
    static func body<Call: FunctionCall>(
        _ function: Call,
        in thread: RecordID? = nil
    ) throws(SanguineError) -> Data {
        let id = thread.flatMap { Identifier($0.text) }
        guard thread == nil || id != nil else {
            throw .problem(
                Problem(.invalidContent, "Use a UUID as a thread's id, such as RecordID.new().")
            )
        }
        return try WireCoding.encode(
            FunctionRequest(
                input: function.input,
                thread: id,
                attachments: function.attachments.isEmpty ? nil : function.attachments
            ),
            as: "the input of '\(Call.name)'"
        )
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
    /// - Throws: The reason why the call has failed, if it is known;
    ///   ``SanguineError/notConfigured(_:)``.
    func find(_ key: String) throws(SanguineError) -> CallInProgress {
        // In one step, and before the call's state is checked: if the call ends in between, `fresh`
        // gets the outcome.
        let fresh = CallInProgress(isWanted: true, mayHaveBeenSent: true)
        let callInProgress = guarded.withLock { guarded in
            let callInProgress = guarded.callsInProgress[key] ?? fresh
            guarded.callsInProgress[key] = callInProgress
            return callInProgress
        }
        callInProgress.isWanted.withLock { $0 = true }
        guard callInProgress === fresh else { return callInProgress }
        let sending: CallRequest
        do throws(SanguineError) {
            sending = try finding(key)
        } catch {
            leave(callInProgress, key)
            callInProgress.outcome.resolve(.failure(error))
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
            callInProgress.outcome.resolve(outcome)
            leave(callInProgress, key)
        }
        return callInProgress
    }

    private func leave(_ callInProgress: CallInProgress, _ key: String) {
        guarded.withLock { guarded in
            if guarded.callsInProgress[key] === callInProgress {
                guarded.callsInProgress[key] = nil
            }
        }
    }

    /// Passes the answer from a stream of this process to callers that wait for it by key.
    func arrived(_ key: String, _ outcome: Result<Data, SanguineError>) {
        guarded.withLock { $0.callsInProgress[key] }?.outcome.resolve(outcome)
    }

    /// Returns the answer of an earlier call, read while it is generated.
    func reopen(_ key: String) throws(SanguineError) -> CallStream {
        let callInProgress = join(key)
        let sending =
            callInProgress == nil
            ? try finding(key) : CallRequest(key: key, function: "", body: nil)
        return CallStream(sending, callInProgress.map { .inProgress($0) } ?? .server, self)
    }

    private func join(_ key: String) -> CallInProgress? {
        let callInProgress = guarded.withLock { $0.callsInProgress[key] }
        callInProgress?.isWanted.withLock { $0 = true }
        return callInProgress
    }

    private func finding(_ key: String) throws(SanguineError) -> CallRequest {
        if let refusal = configuration.refusal { throw refusal }
        guard call.server != nil else { throw .notConfigured("'server'") }
        allowSignIn()
        let open = balance.openCall(key)
        if case .failed(let problem) = open?.state {
            balance.ended { $0.forget(key) }
            throw .problem(problem.ofEndedCall)
        }
        return CallRequest(key: key, function: open?.function ?? "", body: nil)
    }

    /// Records that a caller no longer waits for a running call.
    func left(_ callInProgress: CallInProgress) {
        if callInProgress.outcome.waiting == 0 { callInProgress.isWanted.withLock { $0 = false } }
    }

    // MARK: - Cancelling

    /// Withdraws a call that was never sent; returns whether it is withdrawn.
    func withdraw(_ key: String) -> Bool {
        guarded.withLock { $0.callsInProgress[key] }?.withdraw() == true
    }

    /// Ends a call permanently.
    ///
    /// - Returns: The charge.
    func cancel(_ key: String) async throws(SanguineError) -> Int64 {
        if withdraw(key) { return 0 }
        allowSignIn()
        await isOpened(key)
        let ending = try await sender.repeatedly { () async throws(SanguineError) in
            try await call.call("DELETE", CallSender.path(key), as: CallCancellation.self)
        }
        let now = configuration.clock.now()
        balance.ended { $0.cancelled(key, ending.value, epoch: ending.epoch, at: now) }
        return ending.value.charged
    }

    // MARK: - Running calls

    /// Registers a running call under its key.
    private func enter(
        _ sending: CallRequest,
        isWanted: Bool,
        mayHaveHappened: Bool
    ) -> CallInProgress {
        let mayHaveBeenSent = !sending.isQueued || mayHaveHappened
        let callInProgress = CallInProgress(isWanted: isWanted, mayHaveBeenSent: mayHaveBeenSent)
        guarded.withLock { $0.callsInProgress[sending.key] = callInProgress }
        return callInProgress
    }

    private func launch(
        _ callInProgress: CallInProgress,
        _ sending: CallRequest,
        mayHaveHappened: Bool
    ) {
        Task {
            await runCall(callInProgress, sending, CallRetryState(mayHaveHappened: mayHaveHappened))
        }
    }

    private func runCall(
        _ callInProgress: CallInProgress,
        _ sending: CallRequest,
        _ first: CallRetryState
    ) async {
        // Stored before it is sent: from here on a crash does not lose the hold. If the disk fails,
        // a queued call is treated like any other.
        if sending.exchange != nil { messages?.persist() }
        balance.persist()
        let outcome = await outcome(of: sending, first, callInProgress)
        let isOver = guarded.withLock { $0.ending != nil }
        if sending.isQueued, !isOver { balance.ended { $0.leavesQueue(sending.key) } }
        // In this order: once the call is no longer registered, the balance has its outcome.
        callInProgress.outcome.resolve(outcome)
        leave(callInProgress, sending.key)
    }

    private func outcome(
        of sending: CallRequest,
        _ first: CallRetryState,
        _ callInProgress: CallInProgress
    ) async -> Result<Data, SanguineError> {
        var attempts = first
        var failures = 0
        while true {
            if sending.isQueued {
                do throws(SanguineError) {
                    try await awaitNetwork(callInProgress, afterFailures: failures)
                } catch {
                    return .failure(withdrawn(sending, error))
                }
                balance.sends(sending.key)
                messages?.sends(sending.key)
            }
            switch await send(sending, &attempts) {
            case .success(let data): return .success(data)
            case .failure(let end):
                if sending.isQueued, end.isPassing {
                    failures += 1
                    attempts = CallRetryState(mayHaveHappened: attempts.mayHaveHappened)
                    continue
                }
                return .failure(ended(sending, end))
            }
        }
    }

    private func send(
        _ sending: CallRequest,
        _ attempts: inout CallRetryState
    ) async -> Result<Data, CallFailure> {
        await sender.round(sending, &attempts) { response throws(SanguineError) in
            try settle(whole: response.body, response.epoch, sending)
        }
    }
}

// MARK: - Waiting for a network

extension FunctionCaller {
    /// Sends the queued calls that wait, because the user has signed in.
    func signedIn() { networkChanged() }

    private func networkChanged() {
        let callsInProgress = guarded.withLock { Array($0.callsInProgress.values) }
        for callInProgress in callsInProgress { callInProgress.wake() }
    }

    /// Waits for a network, for the sign-in of a user whose session has ended and, after a failure,
    /// for the backoff.
    ///
    /// - Throws: The reason why the call must not wait any longer.
    private func awaitNetwork(
        _ callInProgress: CallInProgress,
        afterFailures failures: Int
    ) async throws(SanguineError) {
        var mustRest = failures > 0
        while true {
            let rest = OneShot<Void>()
            callInProgress.wakeSignal.withLock { $0 = rest }
            defer { callInProgress.wakeSignal.withLock { $0 = nil } }
            if let ending = guarded.withLock({ $0.ending }) { throw ending }
            // Checked after `rest` is set: any later change ends it.
            let isOnline = configuration.connectivity.isOnline.value
            let needsSignIn = call.authorizer.needsSignIn
            guard mustRest || !isOnline || needsSignIn, !callInProgress.isWithdrawn else { break }
            var random = configuration.random
            let pause = BalanceLimits.queue.backoff(afterFailures: failures, using: &random)
            let timer = Task { [delay = configuration.delay] in
                guard isOnline, !needsSignIn, (try? await delay.sleep(for: pause)) != nil else {
                    return
                }
                rest.resolve(.success(()))
            }
            defer { timer.cancel() }
            try await rest.value()
            // The backoff has ended, or the network has changed.
            mustRest = false
        }
        guard callInProgress.sends() else {
            throw .problem(Problem(.callCancelled, "This was not sent. Call again with a new key."))
        }
    }

    /// Records that this process will not send a call that waited for a network.
    private func withdrawn(_ sending: CallRequest, _ reason: SanguineError) -> SanguineError {
        if case .problem = reason {
            remove(unsent: sending)
        }
        return reason
    }
}
