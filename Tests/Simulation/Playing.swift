/// The authority that the devices use.
package enum AuthorityKind: String, CaseIterable, Sendable {
    /// The contract in a hundred lines.
    case model
    /// The real authority's decisions, over a storage in memory.
    case real
    /// The real authority, with each answer compared with the model's.
    case both
}

/// Plays a seed.
///
/// - Returns: The first broken guarantee, or `nil`.
package func violation(
    seed: UInt64,
    events: Int = 200,
    bug: PlantedBug? = nil,
    authority: AuthorityKind = .real
) async -> Violation? {
    await playWorld(seed: seed, events: events, bug: bug, authority: authority).violation
}

/// Plays a seed.
///
/// - Returns: The first broken guarantee, or `nil`, together with the turns that happened.
package func playWorld(
    seed: UInt64,
    events: Int = 200,
    bug: PlantedBug? = nil,
    authority: AuthorityKind = .real
) async -> (violation: Violation?, tally: WorldTally) {
    do {
        return (nil, try await played(seed, events, bug, authority))
    } catch let difference as TwinAuthority.Difference {
        let found = Violation(
            seed: seed,
            step: difference.requests,
            guarantee: "One contract",
            detail: difference.description
        )
        return (found, [:])
    } catch let violation as Violation {
        return (violation, [:])
    } catch {
        let found = Violation(seed: seed, step: 0, guarantee: "No fault", detail: "\(error)")
        return (found, [:])
    }
}

private func played(
    _ seed: UInt64,
    _ events: Int,
    _ bug: PlantedBug?,
    _ authority: AuthorityKind
) async throws -> WorldTally {

    let schema = SimulatedApp.server
    switch authority {
    case .model:
        var world = World(seed: seed, authority: ModelAuthority(schema: schema), bug: bug)
        return try await world.run(events: events)
    case .real:
        var world = World(seed: seed, authority: RealAuthority(schema: schema), bug: bug)
        return try await world.run(events: events)
    case .both:
        var world = World(seed: seed, authority: TwinAuthority(schema: schema), bug: bug)
        return try await world.run(events: events)
    }
}
