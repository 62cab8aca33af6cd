import NIOCore
import SanguineAuthority
import SanguineModel
import Synchronization

/// A live connection: its ``LiveConnectionState``, and the task that waits for its next step.
///
/// Mutable state: `guarded`, protected by its mutex. The waiting task is resumed outside the lock.
///
/// It uses a mutex instead of an actor because a commit wakes thousands of connections in
/// succession.
final class LiveConnection: Sendable {
    private struct Guarded {
        var state: LiveConnectionState
        var waiting: CheckedContinuation<LiveConnectionState.Step, Never>?
    }

    /// The account and expiry of the access token.
    let pass: AccessPass
    /// The state shared by the account's connections.
    let account: LiveAccount

    /// Selects the connections that are notified of changed lists at the same check of the time.
    let share = Int.random(in: 0..<3_600)

    private let guarded: Mutex<Guarded>
    private let channel: any Channel
    private let uptime: @Sendable () -> Duration
    private let release: @Sendable () -> Void

    /// Creates a connection, which calls `release` when it is deallocated.
    init(
        pass: AccessPass,
        account: LiveAccount,
        position: FeedPosition,
        lists: Set<String> = [],
        listsSeen: Int = 0,
        channel: any Channel,
        uptime: @escaping @Sendable () -> Duration,
        release: @escaping @Sendable () -> Void
    ) {
        self.pass = pass
        self.account = account
        self.channel = channel
        self.uptime = uptime
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

    /// The position of the reader.
    var position: FeedPosition { guarded.withLock { $0.state.position } }

    /// Waits for the next step; a cancelled task gets the end.
    func nextStep() async -> LiveConnectionState.Step {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let step = guarded.withLock { guarded -> LiveConnectionState.Step? in
                    let step = guarded.state.nextStep()
                    if step == nil { guarded.waiting = continuation }
                    return step
                }
                if let step { continuation.resume(returning: step) }
            }
        } onCancel: {
            end(.closed)
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
        if isOverdue { channel.close(promise: nil) }
    }

    /// Performs a write whose duration is limited.
    func writing(_ body: () async throws -> Void) async rethrows {
        update { $0.beginWrite(at: uptime()) }
        try await body()
        update { $0.endWrite(at: uptime()) }
    }

    /// Records that a page was written.
    func wrote(_ page: LivePage, head: Int64) { update { $0.wrote(page, head: head) } }

    /// Records that the feed could not be read.
    func readFailed() { update { $0.readFailed() } }

    /// Changes the state and resumes the waiting task if there is a next step.
    private func update(_ body: (inout LiveConnectionState) -> Void) {
        let resumed = guarded.withLock { guarded -> (() -> Void)? in
            body(&guarded.state)
            guard let waiting = guarded.waiting, let step = guarded.state.nextStep() else {
                return nil
            }
            guarded.waiting = nil
            return { waiting.resume(returning: step) }
        }
        resumed?()
    }
}
