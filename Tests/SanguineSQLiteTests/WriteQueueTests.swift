import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineSQLite

@Suite("SQLite storage: order of commands", .bounded)
struct WriteQueueTests {
    private static let attacker = Identifier.fresh()
    private static let victim = Identifier.fresh()

    @Test func `a short command overtakes the long commands of other accounts`() {
        var queue = WriteQueue()
        for number in 0..<4 { queue.add(number, of: .fresh(), isLong: true) }
        queue.add(4, of: Self.victim)
        queue.add(5, of: Self.victim)

        #expect(queue.turns() == [[4, 5], [0], [1], [2], [3]])
    }

    @Test func `long and short commands alternate while both wait`() {
        var queue = WriteQueue()
        for number in 0..<2 { queue.add(number, of: .fresh(), isLong: true) }
        for number in 2..<6 { queue.add(number, of: .fresh()) }

        #expect(queue.turns(atMost: 2) == [[2, 3], [0], [4, 5], [1]])
    }

    @Test func `a short command waits for the long one of its own account`() {
        var queue = WriteQueue()
        queue.add(0, of: Self.attacker, isLong: true)
        queue.add(1, of: Self.attacker)
        queue.add(2, of: Self.victim)

        #expect(queue.turns() == [[2], [0], [1]])
    }

    @Test func `a long command waits for the short ones of its own account`() {
        var queue = WriteQueue()
        queue.add(0, of: .fresh())
        queue.add(1, of: .fresh())
        queue.add(2, of: Self.attacker)
        queue.add(3, of: Self.attacker, isLong: true)

        #expect(queue.turns(atMost: 1) == [[0], [1], [2], [3]])
    }

    @Test func `other work waits for earlier commands, and later ones for it`() {
        var queue = WriteQueue()
        queue.add(0, of: Self.attacker, isLong: true)
        queue.append(.exclusive { _ in })
        queue.add(1, of: Self.victim)

        #expect(queue.turns() == [[0], [], [1]])
    }

    @Test func `without long commands, short ones share transactions up to the limit`() {
        var queue = WriteQueue()
        for number in 0..<5 { queue.add(number, of: .fresh()) }

        #expect(queue.turns(atMost: 3) == [[0, 1, 2], [3, 4]])
    }

    @Test(arguments: 1...50 as ClosedRange<UInt64>)
    func `commands of an account keep their order, and none is lost`(seed: UInt64) {
        var queue = WriteQueue()
        var random = SplitMix64(seed: seed)
        let accounts = (0..<Int.random(in: 1...6, using: &random)).map { _ in Identifier.fresh() }
        let limit = Int.random(in: 1...8, using: &random)
        var added: [Identifier: [Int]] = [:]
        var done: [Identifier: [Int]] = [:]
        var epochs: [Int: Int] = [:]
        var (exclusive, exclusiveDone, waiting, number) = (0, 0, 0, 0)
        for _ in 0..<400 {
            if Bool.random(using: &random) {
                if Int.random(in: 0..<20, using: &random) == 0 {
                    queue.append(.exclusive { _ in })
                    exclusive += 1
                } else {
                    let account = accounts.randomElement(using: &random)!
                    let isLong = Int.random(in: 0..<3, using: &random) == 0
                    queue.add(number, of: account, isLong: isLong)
                    added[account, default: []].append(number)
                    epochs[number] = exclusive
                    number += 1
                }
                waiting += 1
            } else {
                take()
            }
        }
        while queue.count > 0 { take() }
        #expect(done == added, "seed \(seed)")
        #expect(exclusiveDone == exclusive && waiting == 0, "seed \(seed)")

        func take() {
            let turn = queue.next(atMost: limit)
            #expect((turn == nil) == (waiting == 0), "seed \(seed)")
            switch turn {
            case nil: break
            case .exclusive:
                exclusiveDone += 1
                waiting -= 1
            case .commands(let commands):
                #expect((1...limit).contains(commands.count), "seed \(seed)")
                waiting -= commands.count
                for case let command as Numbered in commands {
                    done[command.of, default: []].append(command.number)
                    #expect(epochs[command.number] == exclusiveDone, "seed \(seed)")
                }
            }
        }
    }
}

extension WriteQueue {
    fileprivate mutating func add(_ number: Int, of account: Identifier, isLong: Bool = false) {
        append(.command(Numbered(number: number, of: account, isLong: isLong)))
    }

    /// Removes everything, and returns the numbers of the commands by turn; none for other work.
    fileprivate mutating func turns(atMost limit: Int = 100) -> [[Int]] {
        var turns: [[Int]] = []
        while let turn = next(atMost: limit) {
            switch turn {
            case .exclusive: turns.append([])
            case .commands(let all):
                turns.append(all.compactMap { $0 as? Numbered }.map(\.number))
            }
        }
        return turns
    }
}

/// A command that is never performed.
private struct Numbered: QueuedCommand {
    let number: Int
    let of: Identifier
    let isLong: Bool

    var account: Identifier? { of }
    var surplus: SurplusSessions? { nil }
    var keys: [Key] {
        Array(repeating: .balance(of), count: isLong ? WriteQueue.shortKeys + 1 : 1)
    }

    func decide(_ loaded: Loaded, _ records: any RecordReader) -> Verdict {
        Verdict(changes: []) {}
    }

    func fail(_ error: StorageError) {}
}
