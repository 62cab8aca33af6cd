package import SanguineModel

/// What the simulation asks of an authority.
package protocol SimulatedAuthority {
    /// The account of that number.
    mutating func account(_ number: Int) async throws -> Identifier
    /// Does or refuses operations, for good.
    mutating func push(
        _ request: PushRequest,
        account: Identifier
    ) async throws -> PushAnswer
    /// A part of an account's feed, for a reader that was told of that horizon.
    mutating func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        operations: [Identifier]
    ) async throws -> PullAnswer
    /// Forgets the tombstones that are there now.
    mutating func sweep() async throws
    /// All records of an account, as they are now.
    func records(of account: Identifier) async throws -> [RecordKey: RecordValue]
}
