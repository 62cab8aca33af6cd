import NIOCore
import SanguineAuthority
import SanguineModel
import Synchronization

/// One live connection: ``LiveConnectionState``, and the task that waits for its next step.
///
/// Mutable state: `guarded`, by its mutex. The waiting task is resumed outside of it.
///
/// A class with a mutex and not an actor: a commit wakes thousands of them in a row.
final class LiveConnection: Sendable {
    private struct Guarded {
        var state: LiveConnectionState
        var waiting: CheckedContinuation<LiveConnectionState.Step, Never>?
    }

    /// Whose connection it is, and until when.
    let pass: AccessPass
    /// What the account's connections share.
    let account: LiveAccount

    private let guarded: Mutex<Guarded>
    private let channel: any Channel
    private let uptime: @Sendable () -> Duration
    private let release: @Sendable () -> Void

    /// Creates a connection whose place is given back when it is released.
    init(
        pass: AccessPass,
        account: LiveAccount,
        position: FeedPosition,
        channel: any Channel,
        uptime: @escaping @Sendable () -> Duration,
        release: @escaping @Sendable () -> Void
    ) {
        self.pass = pass
        self.account = account
        self.channel = channel
        self.uptime = uptime
        self.release = release
        let state = LiveConnectionState(position: position, now: uptime())
        guarded = Mutex(Guarded(state: state))
    }

    deinit { release() }

    /// How far the reader is.
    var position: FeedPosition { guarded.withLock { $0.state.position } }

    /// Waits for the next step; a cancelled task gets the end.
    func nextStep() async -> LiveConnectionState.Step {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let step = guarded.withLock { guarded -> LiveConnectionState.Step? in
                    let step = guarded.state.takeStep()
                    if step == nil { guarded.waiting = continuation }
                    return step
                }
                if let step { continuation.resume(returning: step) }
            }
        } onCancel: {
            end(.closed)
        }
    }

    /// The account has something new.
    func wake() { change { $0.wake() } }

    /// Ends the connection after what it is doing.
    func end(_ reason: LiveConnectionState.Ending) { change { $0.end(reason) } }

    /// Looks at the time; a write that takes too long ends with its connection.
    func timePassed(to now: Duration, pingInterval: Duration, writeTimeout: Duration) {
        var isOverdue = false
        change { state in
            isOverdue = state.timePassed(
                to: now,
                pingInterval: pingInterval,
                writeTimeout: writeTimeout
            )
        }
        if isOverdue { channel.close(promise: nil) }
    }

    /// Performs a write, whose time is watched.
    func writing(_ body: () async throws -> Void) async rethrows {
        change { $0.beginWrite(at: uptime()) }
        try await body()
        change { $0.endWrite(at: uptime()) }
    }

    /// A page was written.
    func wrote(_ page: LivePage, head: Int64) { change { $0.wrote(page, head: head) } }

    /// The feed could not be read.
    func readFailed() { change { $0.readFailed() } }

    /// The one door through which the state changes.
    private func change(_ body: (inout LiveConnectionState) -> Void) {
        let resumed = guarded.withLock { guarded -> (() -> Void)? in
            body(&guarded.state)
            guard let waiting = guarded.waiting, let step = guarded.state.takeStep() else {
                return nil
            }
            guarded.waiting = nil
            return { waiting.resume(returning: step) }
        }
        resumed?()
    }
}
