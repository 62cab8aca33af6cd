import Foundation
import SanguineModel

/// Encodes the bodies of responses.
///
/// A balance is written by hand: it is the body of nearly every response, and is encoded on the
/// only thread that commits. A test compares it with the output of `JSONEncoder` for ``Balance``.
package struct ResponseEncoder: Sendable {
    let unit: String
    private let unitJSON: String

    init(unit: String) {
        self.unit = unit
        unitJSON = String(decoding: Self.encode(unit), as: UTF8.self)
    }

    func balance(_ row: BalanceRow) -> StoredAnswer {
        let body = "{\"balance\":\(json(row))}"
        return StoredAnswer(status: 200, body: Array(body.utf8), head: row.head)
    }

    func hold(_ hold: HoldRow, _ balance: BalanceRow) -> StoredAnswer {
        let body = """
            {"hold":{"id":"\(hold.id)","amount":\(hold.amount),"expiresAt":"\(hold.expiresAt)"},\
            "balance":\(json(balance))}
            """
        return StoredAnswer(status: 201, body: Array(body.utf8), head: balance.head)
    }

    func json(_ row: BalanceRow) -> String {
        """
        {"unit":\(unitJSON),"available":\(row.available),"held":\(row.held),"head":\(row.head),\
        "asOf":"\(row.changedAt)"\(expiring(row))}
        """
    }

    private func expiring(_ row: BalanceRow) -> String {
        guard row.grants.next != nil else { return "" }
        let items = row.grants.items.map { #"{"amount":\#($0.amount),"at":"\#($0.at)"}"# }
        return #","expiring":[\#(items.joined(separator: ","))]"#
    }

    func message(_ row: BalanceRow) -> Balance {
        Balance(
            unit: unit,
            available: row.available,
            held: row.held,
            head: row.head,
            asOf: row.changedAt,
            expiring: row.grants.next == nil ? nil : row.grants.items
        )
    }

    func answer(_ status: Int, _ body: some Encodable, head: Int64?) -> StoredAnswer {
        StoredAnswer(status: status, body: Self.encode(body), head: head)
    }

    /// Encodes a message of the wire as JSON, with its members ordered by name.
    package static func encode(_ body: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(body))
        } catch {
            preconditionFailure("The wire's messages must be valid JSON: \(error)")
        }
    }
}
