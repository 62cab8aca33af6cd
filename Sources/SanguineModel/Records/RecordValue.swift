public import Foundation
import Synchronization

/// The members of a record's JSON object, without its id.
public typealias RecordFields = [String: JSONValue]

/// The content of a record, as JSON and as a value of the app's type.
///
/// JSON is parsed into members, and members are decoded as the app's type, on demand. Both results
/// are cached, because replaying a hundred operations must not decode a record a hundred times.
///
/// Setting a record over a stored one changes only the members that differ. The others keep their
/// stored values, including those that the type does not know.
///
/// Members whose names exceed ``WireLimits/memberNameBytes``, stored by earlier versions, are in
/// the JSON but not in ``fields()``. A value that replaces such a value keeps them.
///
/// Mutable state: the parsed forms, guarded by a mutex. They never change the content of the value.
public struct RecordValue: Sendable {
    // A class, so that all copies share the parsed forms.
    private final class Box: Sendable {
        struct Forms {
            var data: Data?
            var members: Members?
            /// The value as decoded most recently.
            var decoded: (any SyncedRecord)?
            /// The fields after the migrations of ``decoded``, or `nil` if these changed nothing.
            var migrated: RecordFields?
            /// The encoded form of ``decoded``.
            var known: Members?
        }

        /// The record that was set, or `nil` for a value of members or JSON.
        let record: (any SyncedRecord)?
        /// The value that the record was set over, which was not itself set over another.
        let stored: RecordValue?
        let forms: Mutex<Forms>

        init(
            _ forms: Forms = Forms(),
            record: (any SyncedRecord)? = nil,
            over stored: RecordValue? = nil
        ) {
            self.record = record
            self.stored = stored
            self.forms = Mutex(forms)
        }
    }

    /// The visible members and the hidden ones.
    private struct Members: Equatable {
        var fields: RecordFields
        var hidden: HiddenMembers?

        /// Parses JSON.
        init(_ json: Data) throws {
            let bytes = Array(json)
            let document: JSONParser.Document
            do throws(JSONParser.Fault) {
                document = try JSONParser.parse(bytes, limits: .stored)
                if document.hasHidden { hidden = try JSONParser.hiddenMembers(in: bytes) }
            } catch {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "It is not valid JSON: \(error).")
                )
            }
            guard case .object(let fields) = document.value else {
                throw DecodingError.typeMismatch(
                    RecordFields.self,
                    .init(codingPath: [], debugDescription: "It is not an object.")
                )
            }
            self.fields = fields
            self.fields["id"] = nil
        }

        init(_ fields: RecordFields, _ hidden: HiddenMembers? = nil) {
            self.fields = fields
            self.hidden = hidden
        }

        /// Returns the hidden members that remain when the value gets other fields.
        func hidden(under fields: RecordFields) throws(Refusal) -> HiddenMembers? {
            try hidden?.kept(from: .object(self.fields), to: .object(fields))
        }

        func json() throws -> Data {
            let value = JSONValue.object(fields)
            try value.check()
            var text = JSONText(.encoded)
            text.append(value, with: hidden)
            return Data(text.bytes)
        }
    }

    private let box: Box

    /// Creates a value from its members, without an id among them.
    public init(_ fields: RecordFields) { self.init(fields, nil) }

    /// Creates a value from members that a server sent.
    ///
    /// Names that exceed the current limit are kept but not visible.
    package init(received fields: RecordFields) {
        let value = JSONValue.object(fields)
        if (try? value.check()) != nil {
            self.init(fields)
        } else {
            self.init(json: Data(value.encoded))
        }
    }

    private init(_ fields: RecordFields, _ hidden: HiddenMembers?) {
        var fields = fields
        if fields["id"] != nil { fields["id"] = nil }
        box = Box(.init(members: Members(fields, hidden)))
    }

    /// Creates a value from JSON, an object without an id, which is parsed on demand.
    public init(json: Data) { box = Box(.init(data: json)) }

    /// Creates a value from a record.
    public init(_ record: some SyncedRecord) { box = Box(record: record) }

    /// Creates a value from a record that replaces a stored one.
    ///
    /// Only members in which the two differ are changed.
    ///
    /// - Throws: `DecodingError` if the stored value does not match the type and would be lost.
    init<R: SyncedRecord>(_ record: R, over stored: RecordValue) throws {
        _ = try stored.record(R.self, id: record.id)
        // Records that are set over one another form no chain, which would grow with each of them.
        box = Box(record: record, over: try stored.written())
    }

    /// Returns the members, without the id.
    ///
    /// - Throws: `DecodingError` if the JSON is not an object, `EncodingError` if the record cannot
    ///   be encoded as one, ``Refusal`` if it cannot replace the stored value.
    public func fields() throws -> RecordFields { try members().fields }

    private func members() throws -> Members {
        let forms = box.forms.withLock { $0 }
        if let members = forms.members { return members }
        // Outside of the lock, because encoding a record runs the app's code.
        let members =
            if let record = box.record {
                try Self.members(of: record, over: box.stored)
            } else {
                try Members(forms.data ?? Data("{}".utf8))
            }
        box.forms.withLock { $0.members = members }
        return members
    }

    /// Returns the value that replaces a stored one, with the hidden members of the stored value.
    ///
    /// - Throws: ``Refusal`` if these cannot be kept, `EncodingError` if a number is not finite or
    ///   a name too long, `DecodingError` if this or the stored value is not JSON.
    package func put(over stored: RecordValue?) throws -> RecordValue {
        guard box.stored == nil else { return self }
        let own = try members()
        try JSONValue.object(own.fields).check()
        guard let hidden = try stored?.members().hidden(under: own.fields) else { return self }
        return RecordValue(own.fields, own.hidden?.merging(hidden) ?? hidden)
    }

    /// Returns the value with one member changed.
    ///
    /// - Throws: The errors of ``fields()``.
    package func setting(_ name: String, to value: JSONValue) throws -> RecordValue {
        let members = try members()
        var fields = members.fields
        fields[name] = value
        return RecordValue(fields, try members.hidden(under: fields))
    }

    /// Returns the JSON without the id, with members in the order of their names.
    ///
    /// - Throws: The errors of ``fields()``, and `EncodingError` if a number is not finite or a
    ///   name too long.
    public func json() throws -> Data {
        let forms = box.forms.withLock { $0 }
        if let data = forms.data { return data }
        let data = try members().json()
        box.forms.withLock { $0.data = data }
        return data
    }

    /// Returns the value as the app's type.
    ///
    /// - Parameters:
    ///   - type: The type of the collection's records.
    ///   - id: The record's id, which is not among the members.
    /// - Returns: The record.
    /// - Throws: `DecodingError` if the members do not match the type.
    public func record<R: SyncedRecord>(_ type: R.Type = R.self, id: RecordID) throws -> R {
        if let record = box.record as? R { return record }
        if let record = box.forms.withLock({ $0.decoded }) as? R { return record }
        // The parsed members are not stored here: most records are displayed and never changed.
        let forms = box.forms.withLock { $0 }
        let fields = try forms.members?.fields ?? Members(json()).fields
        let (record, migrated) = try StoredForm.records.decode(R.self, from: fields, id: id)
        box.forms.withLock { ($0.decoded, $0.migrated, $0.known) = (record, migrated, nil) }
        return record
    }

    // MARK: - A record over another

    private static func members<R: SyncedRecord>(
        of record: R,
        over stored: RecordValue?
    ) throws -> Members {
        let new = try Members(encoder().encode(record))
        guard let stored else {
            guard let name = new.hidden?.name else { return new }
            throw EncodingError.longName(name, record)
        }
        let (known, migrated) = try stored.known(as: R.self, record.id)
        // A type may read such members, but must leave them unchanged.
        guard new.hidden == known.hidden else {
            throw EncodingError.longName(new.hidden?.name ?? known.hidden?.name ?? "", record)
        }
        let old = try stored.members()
        let members = (migrated ?? old.fields).changed(from: known.fields, to: new.fields)
        return Members(members, try old.hidden(under: members))
    }

    /// Returns the members that the type knows, as it encodes them, and all members after its
    /// migrations, or `nil` if these changed nothing.
    private func known<R: SyncedRecord>(
        as type: R.Type,
        _ id: RecordID
    ) throws -> (Members, migrated: RecordFields?) {
        let record = try record(type, id: id)
        let forms = box.forms.withLock { $0 }
        guard forms.decoded is R else { return (try Members(Self.encoder().encode(record)), nil) }
        if let known = forms.known { return (known, forms.migrated) }
        let known = try Members(Self.encoder().encode(record))
        box.forms.withLock { if $0.decoded is R { $0.known = known } }
        return (known, forms.migrated)
    }

    /// Returns the same value with its members computed, and not set over another.
    private func written() throws -> RecordValue {
        guard box.stored != nil else { return self }
        let value = RecordValue(RecordFields())
        let members = try members()
        value.box.forms.withLock { ($0.members, $0.decoded) = (members, box.record) }
        return value
    }

    // MARK: - JSON

    /// The member with the name, or `nil` if there is none or the value is not an object.
    public subscript(field: String) -> JSONValue? { (try? fields())?[field] }

    private static func encoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }
}

extension RecordValue: Equatable {
    /// Returns whether both have the same members, independent of the `==` of the app's type.
    public static func == (lhs: RecordValue, rhs: RecordValue) -> Bool {
        if lhs.box === rhs.box { return true }
        let (left, right) = (lhs.box.forms.withLock { $0 }, rhs.box.forms.withLock { $0 })
        if let left = left.data, let right = right.data, left == right { return true }
        guard let left = try? lhs.members(), let right = try? rhs.members() else { return false }
        return left == right
    }
}

extension RecordFields {
    /// Returns these members with the difference between two values of a type applied.
    ///
    /// Members that are in neither value, or equal in both, keep their own values. Objects are
    /// changed member by member, and arrays element by element.
    func changed(from old: RecordFields, to new: RecordFields) -> RecordFields {
        var members = self
        for name in old.keys where new[name] == nil { members[name] = nil }
        for (name, value) in new where old[name] != value {
            members[name] = members[name]?.changed(from: old[name], to: value) ?? value
        }
        return members
    }
}

extension JSONValue {
    /// Returns this value with the difference between two values of a type applied.
    fileprivate func changed(from old: JSONValue?, to new: JSONValue) -> JSONValue {
        switch (self, old, new) {
        case (.object(let current), .object(let old), .object(let new)):
            .object(current.changed(from: old, to: new))
        // If the type omits elements, they cannot be matched.
        case (.array(let current), .array(let old), .array(let new))
        where current.count == old.count:
            .array(Self.elements(of: new, over: current, known: old))
        default: new
        }
    }

    /// Returns the elements of a changed array.
    ///
    /// Unchanged elements keep their stored form. If elements are identified by a member `id`,
    /// changed ones keep the stored members that the type does not know.
    private static func elements(
        of new: [JSONValue],
        over current: [JSONValue],
        known old: [JSONValue]
    ) -> [JSONValue] {
        if let oldIndexes = indexes(of: old), indexes(of: new) != nil {
            return new.map { element in
                guard let index = element["id"].flatMap({ oldIndexes[$0] }) else { return element }
                guard old[index] != element else { return current[index] }
                return current[index].changed(from: old[index], to: element)
            }
        }
        // Equal elements may be stored with different members. The ends of the array are compared
        // first, so that an insertion or a removal does not confuse them.
        let shorter = min(old.count, new.count)
        let head = zip(old, new).prefix { $0 == $1 }.count
        let tail = zip(old.reversed(), new.reversed()).prefix(shorter - head).prefix { $0 == $1 }
            .count
        var free: [JSONValue: [Int]] = [:]
        for index in (head..<old.count - tail).reversed() {
            free[old[index], default: []].append(index)
        }
        return new.indices.map { index in
            if index < head { return current[index] }
            if index >= new.count - tail { return current[index - new.count + old.count] }
            return free[new[index]]?.popLast().map { current[$0] } ?? new[index]
        }
    }

    /// Returns the indexes of an array's elements by their ids, or `nil` unless each has a unique
    /// id.
    private static func indexes(of elements: [JSONValue]) -> [JSONValue: Int]? {
        var indexes: [JSONValue: Int] = [:]
        for (index, element) in elements.enumerated() {
            guard let id = element["id"], id != .null, indexes.updateValue(index, forKey: id) == nil
            else { return nil }
        }
        return indexes
    }
}

extension EncodingError {
    fileprivate static func longName(_ name: String, _ value: Any) -> EncodingError {
        .invalidValue(
            value,
            .init(
                codingPath: [JSONKey(stringValue: name)],
                debugDescription: JSONValue.longName(name)
            )
        )
    }
}
