import Foundation
import SanguineModel

/// The balance's state as it is stored: everything but the candidate, which the next fetch
/// replaces.
///
/// It is written before a call is first sent, so that neither a restart nor a kill in the middle of
/// a call loses its hold.
struct BalanceArchive: Codable, Sendable {
    /// Raise it when a member changes its meaning: archives of other versions are dropped.
    static let version = 2

    private let version: Int
    let account: Identifier?
    let base: RecordedBalance?
    let pending: [PendingCharge]
    let history: [RecordedBalance]
    let costs: LearnedCosts

    init(_ state: BalanceState) {
        version = Self.version
        account = state.account
        base = state.base.map { RecordedBalance(balance: $0.balance, receivedAt: $0.receivedAt) }
        pending = state.calls
        history = state.history
        costs = state.costs
    }

    /// Reads an archive, or returns `nil` if this version cannot.
    init?(_ data: Data) {
        guard let archive = try? JSONDecoder().decode(Self.self, from: data),
            archive.isReadable
        else { return nil }
        self = archive
    }

    /// Whether it is of this version.
    var isReadable: Bool { version == Self.version }

    /// The archive as bytes.
    func encoded() throws -> Data { try JSONEncoder().encode(self) }
}
