import Foundation
package import Sanguine

/// What the game of users found: something of one user that another could see, or that was left.
package struct UserLeak: Error, CustomStringConvertible {
    package let seed: UInt64
    package let step: Int
    package let detail: String

    package var description: String {
        """
        seed \(seed), step \(step): No leak: \(detail)
        Replay it with: make leaks SEEDS=\(seed)..\(seed)
        """
    }
}

/// What makes a game of users worth its name: where one of these never happens, nothing is proven.
package enum UserGameTurn: String, CaseIterable, Sendable {
    case signOut = "sign-outs"
    case heldSignOut = "sign-outs stopped half-way"
    case farewellToWrites = "sign-outs with operations left behind"
    case userChange = "sessions taken over by somebody else"
    case death = "deaths"
    case deathInSignOut = "deaths in a sign-out"
    case loss = "messages lost"
    case overtaken = "sign-outs with requests under way"
}

/// How often each turn happened.
package typealias UserGameTally = [UserGameTurn: Int]

extension PlantedFault {
    /// Those that the game of users can find: it looks at what is whose, and at nothing else.
    package static let ofUsers: [PlantedFault] = [.keepsFolder, .takesOverAnybodys]
}

/// Plays a seed of the game of users.
///
/// One game at a time in a process: it stops threads.
///
/// - Parameters:
///   - seed: What the order of requests, answers and changes follows from.
///   - steps: How many steps are played. Default: 60.
///   - fault: What is wrong with the client: one of ``PlantedFault/ofUsers``. Default: nothing.
/// - Returns: What was seen or left of somebody else, `nil` if nothing was; and what happened.
package func userLeak(
    seed: UInt64,
    steps: Int = 60,
    fault: PlantedFault? = nil
) async -> (leak: UserLeak?, tally: UserGameTally) {
    // A thread that stops must not be one that the game itself needs.
    await Task(executorPreference: OwnThread("game")) {
        do {
            let game = try UserGame(seed: seed, fault: fault)
            defer { game.end() }
            return (await game.leak(steps: steps), game.tally)
        } catch {
            let leak = UserLeak(seed: seed, step: 0, detail: "the game did not begin: \(error)")
            return (leak, [:])
        }
    }.value
}

/// Runs tasks on a thread of its own.
final class OwnThread: TaskExecutor {
    private let queue: DispatchQueue

    init(_ label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
