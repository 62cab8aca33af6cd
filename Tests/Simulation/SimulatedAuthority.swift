package import SanguineModel

/// What the simulation asks of an authority.
package protocol SimulatedAuthority {
    /// All that the authority has at one moment.
    associatedtype Copy

    /// The epoch of its numbers.
    var epoch: Epoch? { get }
    /// The account of that number.
    mutating func account(_ number: Int) async throws -> Identifier
    /// Does or refuses operations, for good.
    mutating func push(
        _ request: PushRequest,
        account: Identifier
    ) async throws -> PushAnswer
    /// A part of an account's feed, for a reader that was told of that horizon and that epoch.
    mutating func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        epoch: Epoch?,
        operations: [Identifier]
    ) async throws -> PullAnswer
    /// Forgets the tombstones that are there now.
    mutating func sweep() async throws
    /// All records of an account, as they are now.
    func records(of account: Identifier) async throws -> [RecordKey: RecordValue]
    /// Sets the names of mutations that the authority does not know.
    mutating func setUnknown(_ names: Set<String>)
    /// Returns a copy of all data.
    func copy() -> Copy
    /// Replaces all data by an older copy, under a new epoch.
    mutating func restore(_ copy: Copy)
}
