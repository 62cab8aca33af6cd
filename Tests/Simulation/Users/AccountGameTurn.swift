package import Sanguine

/// The events that make a game of accounts meaningful: if one never happens, nothing is proven.
package enum AccountGameTurn: String, CaseIterable, Sendable {
    case upgrade = "upgrades"
    case secondDevice = "sign-ins on a device without a user"
    case userChange = "sign-ins of another registered user"
    case merge = "merges of guests"
    case signOut = "sign-outs of registered users and guests"
    case revocation = "devices signed out from elsewhere"
    case deletion = "deletions of accounts"
    case deletionWithWrites = "deletions of accounts with waiting operations"
    case waitingWrite = "writes without a network"
    case death = "deaths between steps"
}

/// The number of times that each turn happened.
package typealias AccountGameTally = [AccountGameTurn: Int]

extension PlantedFault {
    /// The faults that only the game of accounts plants.
    private static let onlyOfAccounts: [PlantedFault] = [
        .forgetsRegistration, .adoptsAnyAccount, .keepsDeletedOperations,
    ]

    /// The faults that the game of accounts can find: one each for upgrades, sign-ins, deletions,
    /// and operations that wait for another user.
    package static let ofAccounts: [PlantedFault] = onlyOfAccounts + [.takesOverAnybodys]

    /// The faults that the game of clients can find, which has no registered users.
    package static let ofClients = allCases.filter { !onlyOfAccounts.contains($0) }
}

/// Plays a seed of the game of accounts.
///
/// - Parameters:
///   - seed: The seed that determines the steps.
///   - steps: The number of steps. Default: 60.
///   - fault: A fault to plant in the clients, one of ``PlantedFault/ofAccounts``. Default: none.
/// - Returns: The leak found, or `nil`, together with the turns that happened.
package func accountLeak(
    seed: UInt64,
    steps: Int = 60,
    fault: PlantedFault? = nil
) async -> (leak: UserLeak?, tally: AccountGameTally) {
    do {
        let game = try AccountGame(seed: seed, fault: fault)
        defer { game.end() }
        return (await game.leak(steps: steps), game.tally)
    } catch {
        let leak = UserLeak(seed: seed, step: 0, detail: "the game could not begin: \(error)")
        return (leak, [:])
    }
}
