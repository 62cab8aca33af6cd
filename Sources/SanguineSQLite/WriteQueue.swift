import DequeModule
import SanguineAuthority
import SanguineModel

/// The order in which the writer does its work.
///
/// A transaction has either all waiting short commands, up to a limit, or one long command, such as
/// a push of many operations. The two kinds alternate while both wait. A short command therefore
/// waits for at most one long command of other accounts, and no command waits indefinitely.
///
/// The commands of an account keep their order. Other work waits for all earlier commands, and
/// later commands wait for it.
struct WriteQueue {
    /// The work of one turn.
    enum Turn {
        case commands([any QueuedCommand])
        case exclusive(@Sendable (Result<WriteConnection, StorageError>) -> Void)
    }

    /// The maximum number of rows that a short command loads.
    static let shortKeys = 16
    /// The maximum number of long commands that short ones overtake in a turn.
    static let passedCommands = 512

    private var work = Deque<QueuedWork>()
    private var longCommands = 0
    private var lastWasShort = false

    /// The number of waiting pieces of work.
    var count: Int { work.count }

    /// Adds work at the end.
    mutating func append(_ new: QueuedWork) {
        if new.isLong { longCommands += 1 }
        work.append(new)
    }

    /// Removes the work of the next turn.
    ///
    /// - Parameter limit: The maximum number of commands in a transaction.
    /// - Returns: The work, or `nil` if there is none.
    mutating func next(atMost limit: Int) -> Turn? {
        if case .exclusive(let body)? = work.first {
            work.removeFirst()
            return .exclusive(body)
        }
        guard !work.isEmpty else { return nil }
        let mayBeLong = lastWasShort
        lastWasShort = false
        if longCommands > 0, mayBeLong, let long = dequeueLong(within: Self.passedCommands) {
            return .commands([long])
        }
        let short = dequeueShort(atMost: limit)
        guard short.isEmpty else {
            lastWasShort = true
            return .commands(short)
        }
        return dequeueLong(within: 1).map { .commands([$0]) }
    }

    /// Removes the first long command that no command of its account precedes.
    private mutating func dequeueLong(within range: Int) -> (any QueuedCommand)? {
        var earlier: Set<Identifier?> = []
        for (index, next) in work.prefix(range).enumerated() {
            guard case .command(let command) = next else { return nil }
            guard next.isLong, !earlier.contains(command.account) else {
                earlier.insert(command.account)
                continue
            }
            work.remove(at: index)
            longCommands -= 1
            return command
        }
        return nil
    }

    /// Removes short commands that follow neither other work nor a long command of their account.
    private mutating func dequeueShort(atMost limit: Int) -> [any QueuedCommand] {
        var dequeued: [any QueuedCommand] = []
        var passed: [QueuedWork] = []
        var blocked: Set<Identifier?> = []
        while dequeued.count < limit, passed.count < Self.passedCommands,
            case .command(let next)? = work.first
        {
            let first = work.removeFirst()
            if !first.isLong, blocked.isEmpty || !blocked.contains(next.account) {
                dequeued.append(next)
            } else {
                passed.append(first)
                blocked.insert(next.account)
            }
        }
        work.prepend(contentsOf: passed)
        return dequeued
    }
}

extension QueuedWork {
    /// Whether this is a command that takes a transaction of its own.
    fileprivate var isLong: Bool {
        guard case .command(let command) = self else { return false }
        return command.isLong || command.keys.count > WriteQueue.shortKeys
    }
}
