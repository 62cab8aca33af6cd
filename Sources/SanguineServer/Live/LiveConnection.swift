import NIOCore
import SanguineAuthority
import SanguineModel
import Synchronization

/// A live connection: its ``LiveConnectionState``, and the tasks that perform its steps.
///
/// A task exists only while there is something to read or to write, so that a waiting connection
/// needs no memory for one.
///
/// Mutable state: `guarded`, protected by its mutex.
///
/// It uses a mutex instead of an actor because a commit wakes thousands of connections in
/// succession.
final class LiveConnection: Sendable {
    private struct Guarded {
        var state: LiveConnectionState
        /// Whether a task performs steps, or is still to be started by ``start()``.
        var isBusy = true
    }

    /// The account and expiry of the access token.
    let pass: AccessPass
    /// The state shared by the account's connections.
    let account: LiveAccount

    /// Selects the connections that are notified of changed lists at the same check of the time.
    let share = Int.random(in: 0..<3_600)

    private let guarded: Mutex<Guarded>
    private let output: any LiveOutput
    private let uptime: @Sendable () -> Duration
    private let wrote: @Sendable (_ events: Int) -> Void
    private let release: @Sendable () -> Void

    /// Creates a connection, which calls `release` when it is deallocated.
    init(
        pass: AccessPass,
        account: LiveAccount,
        position: FeedPosition,
        lists: Set<String> = [],
        listsSeen: Int = 0,
        output: any LiveOutput,
        uptime: @escaping @Sendable () -> Duration,
        wrote: @escaping @Sendable (_ events: Int) -> Void,
        release: @escaping @Sendable () -> Void
    ) {
        self.pass = pass
        self.account = account
        self.output = output
        self.uptime = uptime
        self.wrote = wrote
        self.release = release
        let state = LiveConnectionState(
            position: position,
            lists: lists,
            listsSeen: listsSeen,
            now: uptime()
        )
        guarded = Mutex(Guarded(state: state))
    }

    deinit { release() }

    /// Prepares for writes.
    ///
    /// - Throws: An error if the client has closed the connection.
    func open() async throws {
        try await output.open { [weak self] in self?.end(.closed) }
    }

    /// Begins to write.
    func start() {
        Task(executorPreference: output.executor) { [self] in
            await attempting { try await writeRetry(after: LiveLimits.retry) }
            if let step = nextStep() { await work(from: step) }
        }
    }

    /// Wakes the connection because the account has new changes.
    func wake() { update { $0.wake() } }

    /// Tells the reader that lists of a collection have changed, if it shows one.
    func listChanged(_ name: String) { update { $0.listChanged(name) } }

    /// Tells the reader of the changed lists that it shows.
    func compareLists(_ changed: [String: Int], at check: Int) {
        update { $0.compareLists(changed, at: check) }
    }

    /// Ends the connection after its current step.
    func end(_ reason: LiveConnectionState.Ending) { update { $0.end(reason) } }

    /// Checks timeouts; a write that takes too long is ended by closing the connection.
    func timePassed(to now: Duration, pingInterval: Duration, writeTimeout: Duration) {
        var isOverdue = false
        update { state in
            isOverdue = state.timePassed(
                to: now,
                pingInterval: pingInterval,
                writeTimeout: writeTimeout
            )
        }
        if isOverdue { output.close() }
    }

    /// Changes the state, and starts a task if there is a next step.
    private func update(_ body: (inout LiveConnectionState) -> Void) {
        let step = guarded.withLock { guarded -> LiveConnectionState.Step? in
            body(&guarded.state)
            guard !guarded.isBusy, let step = guarded.state.nextStep() else { return nil }
            guarded.isBusy = true
            return step
        }
        guard let step else { return }
        Task(executorPreference: output.executor) { [self] in await work(from: step) }
    }

    /// Returns the next step of the current task; `nil` if the task must end.
    private func nextStep() -> LiveConnectionState.Step? {
        guarded.withLock { guarded in
            let step = guarded.state.nextStep()
            guarded.isBusy = step != nil
            return step
        }
    }

    // MARK: - Steps

    private func work(from first: LiveConnectionState.Step) async {
        var next: LiveConnectionState.Step? = first
        while let step = next {
            if case .end(let ending) = step { return await finish(ending) }
            await attempting { try await perform(step) }
            next = nextStep()
        }
    }

    private func perform(_ step: LiveConnectionState.Step) async throws {
        switch step {
        case .read: try await writeNews()
        case .lists(let names):
            try await write(ByteBuffer(bytes: LiveEvents.bytes(ofChangedLists: names)))
        case .ping: try await write(ByteBuffer(string: ": ping\n\n"))
        case .end: break
        }
    }

    private func writeNews() async throws {
        let position = guarded.withLock { $0.state.position }
        let page: LivePage
        do throws(Problem) {
            page = try await account.page(after: position)
        } catch {
            if error.code == .notFound { return end(.accountGone) }
            return update { $0.readFailed() }
        }
        var bytes = page.bytes
        while let part = bytes.readSlice(length: min(LiveLimits.writeBytes, bytes.readableBytes)),
            part.readableBytes > 0
        {
            try await write(part)
        }
        wrote(page.events)
        update { $0.wrote(page, head: account.head) }
    }

    /// Writes the end of the response unless the client no longer reads, and closes the connection.
    private func finish(_ ending: LiveConnectionState.Ending) async {
        await attempting {
            switch ending {
            case .closed, .slow: return
            case .shutdown:
                let spread = LiveLimits.retryAfterShutdown - LiveLimits.retry
                try await writeRetry(after: LiveLimits.retry + spread * Double.random(in: 0...1))
            case .unauthenticated, .accountGone: break
            }
            try await timed { try await output.finish() }
        }
        account.remove(self)
        output.close()
    }

    private func writeRetry(after time: Duration) async throws {
        let milliseconds = time.wholeNanoseconds / 1_000_000
        try await write(ByteBuffer(string: "retry: \(milliseconds)\n\n"))
    }

    private func write(_ part: ByteBuffer) async throws {
        try await timed { try await output.write(part) }
    }

    /// Performs a write whose duration is limited.
    private func timed(_ body: () async throws -> Void) async rethrows {
        update { $0.beginWrite(at: uptime()) }
        try await body()
        update { $0.endWrite(at: uptime()) }
    }

    /// Performs a write; if it fails, the client has closed the connection.
    private func attempting(_ body: () async throws -> Void) async {
        do {
            try await body()
        } catch {
            end(.closed)
        }
    }
}
