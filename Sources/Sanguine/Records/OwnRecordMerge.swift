import SanguineModel

/// Shows the user's own records in the rows of a published list.
///
/// This device has all of the user's own records, with the changes that the server has not applied
/// yet. So it decides which of them are in the list and what they contain, and the server decides
/// about all others. It does not matter which operations a page contains: nothing disappears or
/// returns when an operation is acknowledged before the list is fetched again, or when a fetched
/// page is older than the operation.
///
/// Pure. Invariants: rows of others keep their order, and no id occurs twice.
struct OwnRecordMerge<R: SyncedRecord>: Sendable {
    let listing: RecordListing<R>

    /// Returns the rows to show.
    ///
    /// - Parameters:
    ///   - listed: The rows of the server, in their order.
    ///   - state: The state of the list.
    ///   - own: The user's own records.
    ///   - removed: The user's own records that were deleted, and may still be in a fetched page.
    /// - Returns: The rows.
    func rows(
        _ listed: [R],
        in state: ListSnapshot<R>,
        own: OwnRecords,
        removed: Set<RecordID> = []
    ) -> [R] {
        var shown: [R] = []
        shown.reserveCapacity(listed.count)
        var known: Set<RecordID> = []
        for row in listed {
            known.insert(row.id)
            guard !removed.contains(row.id), !own.deleted.contains(row.id) else { continue }
            guard let value = own.values[row.id] else {
                shown.append(row)
                continue
            }
            guard contains(value) else { continue }
            shown.append(Self.row(row, replacedBy: value, keeping: own.counted))
        }
        guard listsOwn else { return shown }
        let missing = own.values.filter { !known.contains($0.key) && contains($0.value) }
        return missing.isEmpty ? shown : inserting(missing, own.unstored, into: shown, state)
    }

    /// Whether the list has all of the user's own records that meet its conditions.
    private var listsOwn: Bool {
        !listing.isSearch && listing.timeline.map(\.includesOwn) ?? true
    }

    /// Returns whether a record meets the conditions of the list.
    private func contains(_ value: RecordValue) -> Bool {
        listing.conditions.allSatisfy { field, wanted in
            let found = value[field]
            guard field == R.collection.readers, case .array(let readers)? = found else {
                return found == wanted
            }
            return readers.contains(wanted)
        }
    }

    /// Returns the user's own record, with the members of the listed one that the server counts.
    private static func row(
        _ listed: R,
        replacedBy value: RecordValue,
        keeping counted: Set<String>
    ) -> R {
        do {
            guard !counted.isEmpty else { return try value.record(R.self, id: listed.id) }
            let members = try JSONValue(encoding: listed)
            var fields = try value.fields()
            for name in counted { fields[name] = members[name] }
            return try RecordValue(fields).record(R.self, id: listed.id)
        } catch {
            return listed
        }
    }

    // MARK: - The records that the list lacks

    private func inserting(
        _ missing: [RecordID: RecordValue],
        _ unstored: Set<RecordID>,
        into rows: [R],
        _ state: ListSnapshot<R>
    ) -> [R] {
        var positions: [Int: Position] = [:]
        func position(_ index: Int) -> Position {
            if let known = positions[index] { return known }
            let position = Position(of: rows[index], by: listing.order)
            positions[index] = position
            return position
        }
        let own = missing.compactMap { id, value -> (position: Position, row: R)? in
            guard let row = try? value.record(R.self, id: id) else { return nil }
            return (Position(id, value, unstored.contains(id), by: listing.order), row)
        }
        .sorted { precedes($0.position, $1.position) }
        var merged: [R] = []
        merged.reserveCapacity(rows.count + own.count)
        var taken = 0
        for (own, row) in own {
            var (low, high) = (taken, rows.count)
            while low < high {
                let middle = (low + high) / 2
                if precedes(own, position(middle)) { high = middle } else { low = middle + 1 }
            }
            // Pages that are not loaded may have records between these rows and this one.
            let isBefore = low == 0 && state.hasPrevious
            let isAfter = low == rows.count && state.hasMore
            guard !isBefore, !isAfter else { continue }
            merged += rows[taken..<low]
            merged.append(row)
            taken = low
        }
        return merged + rows[taken...]
    }

    private func precedes(_ one: Position, _ other: Position) -> Bool {
        listing.order?.isDescending == true ? other < one : one < other
    }

    /// The position of a record in the order of a list: by the value, and then by the id.
    private struct Position: Comparable {
        private let value: Value
        private let id: RecordID

        /// Creates the position of a row.
        init(of row: R, by order: RecordListing<R>.Order?) {
            id = row.id
            let members = order == nil ? nil : try? JSONValue(encoding: row)
            value = order.map { Value(members?[$0.field]) } ?? .none
        }

        /// Creates the position of the user's own record.
        ///
        /// The server sets the time of creation, so a record that it has not stored is newer than
        /// all others. Several of those are in the order of this device's clock.
        init(
            _ id: RecordID,
            _ record: RecordValue,
            _ isUnstored: Bool,
            by order: RecordListing<R>.Order?
        ) {
            self.id = id
            guard let order else {
                value = .none
                return
            }
            let found = record[order.field]
            let isNewest = isUnstored && R.collection.isStamped && order.field == "createdAt"
            value = isNewest ? .newest(Bytes(found?.string ?? "")) : Value(found)
        }

        static func < (lhs: Position, rhs: Position) -> Bool {
            lhs.value == rhs.value ? lhs.id < rhs.id : lhs.value < rhs.value
        }
    }

    /// A value in the order of the server's indexes: by its kind, and then by itself.
    private enum Value: Comparable {
        case none, null
        case bool(Int)
        case number(Double)
        case text(Bytes)
        case newest(Bytes)

        init(_ value: JSONValue?) {
            self =
                switch value {
                case nil, .array, .object: .none
                case .null: .null
                case .bool(let bool): .bool(bool ? 1 : 0)
                case .string(let text): .text(Bytes(text))
                case .integer(let integer): .number(Double(integer))
                case .number(let number): .number(number)
                case .decimal(let decimal): .number(Double("\(decimal)") ?? 0)
                }
        }
    }

    /// A text that is ordered by its bytes.
    private struct Bytes: Comparable {
        private let text: String

        init(_ text: String) { self.text = text }

        static func == (lhs: Bytes, rhs: Bytes) -> Bool { lhs.text.hasBytes(of: rhs.text) }

        static func < (lhs: Bytes, rhs: Bytes) -> Bool {
            lhs.text.utf8.lexicographicallyPrecedes(rhs.text.utf8)
        }
    }
}
