/// Which authority the devices talk to.
package enum AuthorityKind: String, CaseIterable, Sendable {
    /// The contract in a hundred lines.
    case model
    /// The authority's own decisions, over a storage in memory.
    case real
}

/// Plays a seed.
///
/// - Returns: The first guarantee that was broken, or `nil`.
package func violation(
    seed: UInt64,
    events: Int = 200,
    bug: PlantedBug? = nil,
    authority: AuthorityKind = .real
) async -> Violation? {
    do {
        let schema = SimulatedApp.server
        switch authority {
        case .model:
            var world = World(seed: seed, authority: ModelAuthority(schema: schema), bug: bug)
            try await world.run(events: events)
        case .real:
            let real = try await RealAuthority(schema: schema)
            var world = World(seed: seed, authority: real, bug: bug)
            try await world.run(events: events)
        }
        return nil
    } catch let violation as Violation {
        return violation
    } catch {
        return Violation(seed: seed, step: 0, guarantee: "No fault", detail: "\(error)")
    }
}
