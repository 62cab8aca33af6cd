import Foundation
import OrderedCollections
import SanguineModel

/// The real ids of temporary ones that may still be in use.
struct ReplacedIds: Sendable {
    private var real: OrderedDictionary<String, String> = [:]

    /// Whether no temporary id has been replaced.
    var isEmpty: Bool { real.isEmpty }

    /// Returns the real id of a temporary one; `nil` if it has none, or was forgotten.
    func real(of id: String) -> String? { real[id] }

    /// Stores real ids; past ``RecordLimits/replacedIds`` the oldest are forgotten.
    mutating func learn(_ replaced: [(temporary: String, real: String)]) {
        for (temporary, real) in replaced {
            self.real.updateValue(real, forKey: temporary)
            if self.real.count > RecordLimits.replacedIds { self.real.removeFirst() }
        }
    }

    /// Returns the row with real ids; `nil` if it contains no temporary ones.
    func rewrite(_ row: OutboxFile.Row) -> OutboxFile.Row? {
        guard !isEmpty,
            let arguments = try? JSONValue(written: Array(row.arguments))
        else { return nil }
        let other = arguments.replacing(real)
        let lane = real[row.lane] ?? row.lane
        guard other != arguments || lane != row.lane else { return nil }
        var row = row
        row.lane = lane
        row.arguments = Data(other.encoded)
        return row
    }
}

extension JSONValue {
    fileprivate func replacing(_ replaced: OrderedDictionary<String, String>) -> JSONValue {
        switch self {
        case .string(let text): .string(replaced[text] ?? text)
        case .array(let values): .array(values.map { $0.replacing(replaced) })
        case .object(let members): .object(members.mapValues { $0.replacing(replaced) })
        default: self
        }
    }
}
