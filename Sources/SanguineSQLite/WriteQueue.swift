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
        case errand(@Sendable (Result<WriteConnection, StorageError>) -> Void)
    }

    /// The most rows that a short command loads.
    static let shortKeys = 16

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
    /// - Parameter limit: The most commands of a transaction.
    /// - Returns: The work, or `nil` if there is none.
    mutating func next(atMost limit: Int) -> Turn? {
        if case .errand(let errand)? = work.first {
            work.removeFirst()
            return .errand(errand)
        }
        guard !work.isEmpty else { return nil }
        let mayBeLong = lastWasShort
        lastWasShort = false
        if longCommands > 0, mayBeLong, let long = takeLong(within: 2 * limit) {
            return .commands([long])
        }
        let short = takeShort(atMost: limit)
        guard short.isEmpty else {
            lastWasShort = true
            return .commands(short)
        }
        return takeLong(within: 1).map { .commands([$0]) }
    }

    /// Removes the first long command, if it is among the first commands.
    private mutating func takeLong(within range: Int) -> (any QueuedCommand)? {
        for (index, next) in work.prefix(range).enumerated() {
            guard case .command(let command) = next else { return nil }
            // Short commands that wait behind it do not change its order with those before it.
            guard next.isLong, !hasCommand(of: command.account, before: index) else { continue }
            work.remove(at: index)
            longCommands -= 1
            return command
        }
        return nil
    }

    private func hasCommand(of account: Identifier?, before end: Int) -> Bool {
        work.prefix(end).contains { earlier in
            guard case .command(let command) = earlier else { return true }
            return command.account == account
        }
    }

    /// Removes short commands that follow neither other work nor a long command of their account.
    private mutating func takeShort(atMost limit: Int) -> [any QueuedCommand] {
        var taken: [any QueuedCommand] = []
        var passed: [QueuedWork] = []
        var blocked: Set<Identifier?> = []
        while taken.count < limit, passed.count < limit, case .command(let next)? = work.first {
            let first = work.removeFirst()
            if !first.isLong, blocked.isEmpty || !blocked.contains(next.account) {
                taken.append(next)
            } else {
                passed.append(first)
                blocked.insert(next.account)
            }
        }
        work.prepend(contentsOf: passed)
        return taken
    }
}

extension QueuedWork {
    /// Whether this is a command that takes a transaction of its own.
    fileprivate var isLong: Bool {
        guard case .command(let command) = self else { return false }
        return command.keys.count > WriteQueue.shortKeys
    }
}
