import Foundation
import OrderedCollections
import SanguineModel

/// Which ids stand for temporary ones that somebody may still name.
struct ReplacedIds: Sendable {
    private var real: OrderedDictionary<String, String> = [:]

    /// Whether nobody has a temporary id.
    var isEmpty: Bool { real.isEmpty }

    /// The id that stands for a temporary one; `nil` if it is none, or was forgotten.
    func real(of id: String) -> String? { real[id] }

    /// Remembers real ids; past ``RecordLimits/replacedIds`` the oldest are forgotten.
    mutating func learn(_ replaced: [(temporary: String, real: String)]) {
        for (temporary, real) in replaced {
            self.real.updateValue(real, forKey: temporary)
            if self.real.count > RecordLimits.replacedIds { self.real.removeFirst() }
        }
    }

    /// The row with real ids in the place of temporary ones; `nil` if it has none of these.
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
