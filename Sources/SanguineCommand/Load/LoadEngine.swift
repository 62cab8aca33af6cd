import DequeModule
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import SanguineModel

/// Sends the requests of a ``LoadRun`` over a pool of connections, and gives it the responses.
///
/// Everything runs on one event loop: there is no lock, and a request that starts late shows in the
/// lag. Mutable state is confined to that loop.
final class LoadEngine {
    /// What a run found.
    struct Outcome: Sendable {
        var run: LoadRun
        /// The connections for requests that were opened.
        var opened = 0
        /// The requests that waited because all connections were in use.
        var waited = 0
        /// The requests that were sent again because the server had closed an idle connection.
        var resent = 0
    }

    /// The time between looks at timeouts.
    private static let sweep = TimeAmount.milliseconds(50)

    let authority: String
    private let target: LoadTarget
    private let limit: Int
    private let addresses: [SocketAddress]
    private let eventLoop: any EventLoop
    private let promise: EventLoopPromise<Outcome>
    private let progress: @Sendable (LoadProgress) -> Void
    private let origin: NIODeadline
    private var outcome: Outcome
    private var idle: [LoadConnection] = []
    private var connections: [ObjectIdentifier: LoadConnection] = [:]
    /// The connections of requests that are on their way.
    private var busy: [Int: LoadConnection] = [:]
    /// The requests without a free connection.
    private var queue: Deque<LoadRun.Send> = []
    private var pooled = 0
    private var nextAddress = 0
    private var nextSecond = 1
    private var lastProgress = LoadProgress()

    private init(
        _ run: LoadRun,
        target: LoadTarget,
        connections: LoadConnections,
        eventLoop: any EventLoop,
        promise: EventLoopPromise<Outcome>,
        progress: @escaping @Sendable (LoadProgress) -> Void
    ) {
        outcome = Outcome(run: run)
        self.target = target
        authority = target.authority
        limit = connections.requests
        addresses = target.localAddresses(for: connections.all)
        self.eventLoop = eventLoop
        self.promise = promise
        self.progress = progress
        origin = eventLoop.now
    }

    /// Performs a run.
    ///
    /// Cancelling the task ends the run early, and its outcome so far is returned.
    ///
    /// - Parameters:
    ///   - run: The run, which has not begun.
    ///   - target: The server.
    ///   - connections: The limits of connections.
    ///   - progress: Called every second.
    /// - Returns: The run with its counts.
    /// - Throws: An error of the event loop.
    static func perform(
        _ run: LoadRun,
        target: LoadTarget,
        connections: LoadConnections,
        progress: @escaping @Sendable (LoadProgress) -> Void = { _ in }
    ) async throws -> Outcome {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let eventLoop = group.next()
        let promise = eventLoop.makePromise(of: Outcome.self)
        let engine = try await eventLoop.submit {
            let engine = LoadEngine(
                run,
                target: target,
                connections: connections,
                eventLoop: eventLoop,
                promise: promise,
                progress: progress
            )
            return NIOLoopBound(engine, eventLoop: eventLoop)
        }.get()
        let outcome = try await withTaskCancellationHandler {
            eventLoop.execute { engine.value.begin() }
            return try await promise.futureResult.get()
        } onCancel: {
            eventLoop.execute { engine.value.finish(isInterrupted: true) }
        }
        // Closes all connections.
        try await group.shutdownGracefully()
        return outcome
    }

    /// The time since the start of the run.
    var now: Duration { .nanoseconds((eventLoop.now - origin).nanoseconds) }

    // MARK: - Time

    private func begin() {
        guard outcome.run.end == nil else { return }
        startDue()
        look()
    }

    private func startDue() {
        guard outcome.run.end == nil else { return }
        for send in outcome.run.start(at: now) { start(send) }
        guard let next = outcome.run.nextTime else { return }
        let delay = max(0, Int64((next - now) / .nanoseconds(1)))
        let engine = NIOLoopBound(self, eventLoop: eventLoop)
        // Through the event loop in any case, so that connections have their turn.
        eventLoop.scheduleTask(in: .nanoseconds(delay)) { engine.value.startDue() }
    }

    /// Ends what has timed out, tells the progress, and ends the run when it is complete.
    private func look() {
        guard outcome.run.end == nil else { return }
        let (cancelled, sends) = outcome.run.expire(at: now)
        for number in cancelled { busy.removeValue(forKey: number)?.close() }
        for send in sends { start(send) }
        if now >= .seconds(nextSecond) {
            nextSecond += 1
            reportProgress()
        }
        guard !outcome.run.isComplete(at: now) else { return finish(isInterrupted: false) }
        let engine = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.scheduleTask(in: Self.sweep) { engine.value.look() }
    }

    private func reportProgress() {
        var current = LoadProgress(outcome.run, at: now)
        current.perSecond = current.succeeded - lastProgress.succeeded
        lastProgress = current
        progress(current)
    }

    private func finish(isInterrupted: Bool) {
        guard outcome.run.end == nil else { return }
        outcome.run.finish(at: now, isInterrupted: isInterrupted)
        promise.succeed(outcome)
    }

    // MARK: - Requests

    private func start(_ send: LoadRun.Send) {
        if send.isLive { return open(LoadConnection(engine: self, request: send), send) }
        while let connection = idle.popLast() {
            guard connection.isUsable(at: now) else {
                connection.close()
                continue
            }
            busy[send.number] = connection
            return connection.send(send)
        }
        openOrWait(send)
    }

    private func openOrWait(_ send: LoadRun.Send) {
        guard pooled < limit else {
            outcome.waited += 1
            return queue.append(send)
        }
        pooled += 1
        outcome.opened += 1
        open(LoadConnection(engine: self, request: send), send)
    }

    private func open(_ connection: LoadConnection, _ send: LoadRun.Send) {
        connections[ObjectIdentifier(connection)] = connection
        busy[send.number] = connection
        let bound = NIOLoopBound((self, connection), eventLoop: eventLoop)
        var bootstrap = ClientBootstrap(group: eventLoop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .connectTimeout(.nanoseconds(Int64(outcome.run.plan.timeout / .nanoseconds(1))))
        if !addresses.isEmpty {
            bootstrap = bootstrap.bind(to: addresses[nextAddress % addresses.count])
            nextAddress += 1
        }
        bootstrap.channelInitializer { [target] channel in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                if let tls = target.tls {
                    let isName = (try? SocketAddress(ipAddress: target.host, port: 0)) == nil
                    let name = isName ? target.host : nil
                    try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: name))
                }
                try pipeline.addHTTPClientHandlers()
                try pipeline.addHandler(bound.value.1)
            }
        }
        .connect(to: target.address)
        .whenFailure { error in
            let (engine, connection) = bound.value
            connection.couldNotOpen(error)
            engine.closed(connection)
        }
    }

    // MARK: - Connections

    func answered(_ number: Int, status: Int, body: [UInt8]) {
        busy[number] = nil
        let sends = outcome.run.answer(number, .response(status: status, body: body), at: now)
        for send in sends { start(send) }
    }

    func failed(_ number: Int, _ reason: String) {
        busy[number] = nil
        for send in outcome.run.answer(number, .failure(reason), at: now) { start(send) }
    }

    func resend(_ send: LoadRun.Send) {
        busy[send.number] = nil
        guard outcome.run.end == nil, outcome.run.isOpen(send.number) else { return }
        outcome.resent += 1
        openOrWait(send)
    }

    /// Uses a connection again whose response is complete.
    func released(_ connection: LoadConnection) {
        while let next = queue.popFirst() {
            // Its timeout may have passed while it waited.
            guard outcome.run.isOpen(next.number) else { continue }
            busy[next.number] = connection
            return connection.send(next)
        }
        idle.append(connection)
    }

    func closed(_ connection: LoadConnection) {
        guard connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        idle.removeAll { $0 === connection }
        if !connection.isForLive { pooled -= 1 }
        guard outcome.run.end == nil else { return }
        while pooled < limit, let next = queue.popFirst() {
            guard outcome.run.isOpen(next.number) else { continue }
            pooled += 1
            outcome.opened += 1
            open(LoadConnection(engine: self, request: next), next)
        }
    }

    func liveReceived(_ bytes: Int) { outcome.run.liveReceived(bytes) }

    func liveEnded() { outcome.run.liveEnded(at: now) }

    /// Returns the reason of a failed connection in a few words.
    static func reason(of error: any Error) -> String {
        if let error = error as? IOError {
            switch error.errnoCode {
            case ECONNREFUSED: return "connection refused"
            case ECONNRESET, EPIPE: return "connection reset"
            case EADDRNOTAVAIL: return "no free port"
            case EMFILE, ENFILE: return "too many open files"
            case ETIMEDOUT: return "connection timed out"
            default: return "connection failed (\(error.errnoCode))"
            }
        }
        if case .connectTimeout? = error as? ChannelError { return "connection timed out" }
        if error is HTTPParserError { return "invalid response" }
        if error is NIOSSLError { return "TLS failed" }
        return "connection closed"
    }
}

/// What a run shows every second.
struct LoadProgress: Sendable, Hashable, CustomStringConvertible {
    var seconds = 0
    var arrived = 0
    var users = 0
    var live = 0
    var succeeded = 0
    var failed = 0
    var open = 0
    /// The successful responses of the last second.
    var perSecond = 0

    init() {}

    init(_ run: LoadRun, at now: Duration) {
        seconds = Int(now / .seconds(1))
        arrived = run.tally.arrived
        users = run.plan.users
        live = run.tally.liveConnections
        succeeded = run.tally.succeeded
        failed = run.tally.failed
        open = run.openRequests
    }

    var description: String {
        """
        \(seconds) s: \(arrived) of \(users) users, \(live) live, \(perSecond) responses/s, \
        \(open) open, \(failed) failed
        """
    }
}
