import Foundation
package import Sanguine

/// A violation that the game of users found: data of one user that another could see, or that was
/// left behind.
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

/// The events that make a game of users meaningful: if one never happens, nothing is proven.
package enum UserGameTurn: String, CaseIterable, Sendable {
    case signOut = "sign-outs"
    case heldSignOut = "interrupted sign-outs"
    case farewellToWrites = "sign-outs with operations left behind"
    case userChange = "sessions taken over by another user"
    case death = "deaths"
    case deathInSignOut = "kills during a sign-out"
    case loss = "messages lost"
    case overtaken = "sign-outs with requests under way"
}

/// The number of times that each turn happened.
package typealias UserGameTally = [UserGameTurn: Int]

extension PlantedFault {
    /// The faults that the game of users can find, since it checks only ownership of data.
    package static let ofUsers: [PlantedFault] = [.keepsFolder, .takesOverAnybodys]
}

/// Plays a seed of the game of users.
///
/// Only one game at a time may run in a process, because it blocks threads.
///
/// - Parameters:
///   - seed: The seed that determines the order of requests, answers and changes.
///   - steps: The number of steps. Default: 60.
///   - fault: A fault to plant in the client, one of ``PlantedFault/ofUsers``. Default: none.
/// - Returns: The leak found, or `nil`, together with the turns that happened.
package func userLeak(
    seed: UInt64,
    steps: Int = 60,
    fault: PlantedFault? = nil
) async -> (leak: UserLeak?, tally: UserGameTally) {
    // A thread that is blocked must not be one that the game itself needs.
    await Task(executorPreference: OwnThread("game")) {
        do {
            let game = try UserGame(seed: seed, fault: fault)
            defer { game.end() }
            return (await game.leak(steps: steps), game.tally)
        } catch {
            let leak = UserLeak(seed: seed, step: 0, detail: "the game could not begin: \(error)")
            return (leak, [:])
        }
    }.value
}

/// Runs tasks on its own thread.
final class OwnThread: TaskExecutor {
    private let queue: DispatchQueue

    init(_ label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
