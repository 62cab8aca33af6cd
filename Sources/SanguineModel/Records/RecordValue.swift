public import Foundation
import Synchronization

/// The members of a record's JSON object, without its id.
public typealias RecordFields = [String: JSONValue]

/// What a record holds: JSON, and the app's type that it was read as.
///
/// Bytes become members, and members a value of the app's type, when somebody asks; each is then
/// remembered, because replaying a hundred operations must not decode one record a hundred times.
///
/// A record that is set over a stored one changes the members that differ, and leaves the others as
/// they are stored, also those that the type does not know.
///
/// Members with names over ``WireLimits/memberNameBytes``, which earlier versions have stored, are
/// in the JSON, and not among the ``fields()``. What is put over such a value has them, too.
///
/// Mutable state: what was read so far, guarded by a mutex. It never changes what the value is.
public struct RecordValue: Sendable {
    // A class, so that all copies remember alike.
    private final class Box: Sendable {
        struct Forms {
            var data: Data?
            var members: Members?
            /// The value as it was decoded last.
            var decoded: (any SyncedRecord)?
            /// The fields as the migrations of ``decoded`` leave them; `nil` if these change none.
            var migrated: RecordFields?
            /// What ``decoded`` encodes to.
            var known: Members?
        }

        /// The record that was set; `nil` for a value of members or JSON.
        let record: (any SyncedRecord)?
        /// What the record was set over; it is over nothing itself.
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

    /// Members that are shown, and those that are not.
    private struct Members: Equatable {
        var fields: RecordFields
        var hidden: HiddenMembers?

        /// Takes JSON apart.
        init(_ json: Data) throws {
            let bytes = Array(json)
            let document: JSONParser.Document
            do throws(JSONParser.Fault) {
                document = try JSONParser.parse(bytes, limits: .stored)
                if document.hasHidden { hidden = try JSONParser.hiddenMembers(in: bytes) }
            } catch {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "It is no JSON: \(error).")
                )
            }
            guard case .object(let fields) = document.value else {
                throw DecodingError.typeMismatch(
                    RecordFields.self,
                    .init(codingPath: [], debugDescription: "It is no object.")
                )
            }
            self.fields = fields
            self.fields["id"] = nil
        }

        init(_ fields: RecordFields, _ hidden: HiddenMembers? = nil) {
            self.fields = fields
            self.hidden = hidden
        }

        /// The hidden members that stay if the value gets other fields.
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

    /// Creates a value from its members; an id among them is left out.
    public init(_ fields: RecordFields) { self.init(fields, nil) }

    /// Creates a value from members that a server has sent, which may have stored names over
    /// today's limit: these are kept, and not shown.
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

    /// Creates a value from JSON, which is read when somebody asks: an object without an id.
    public init(json: Data) { box = Box(.init(data: json)) }

    /// Creates a value from a record.
    public init(_ record: some SyncedRecord) { box = Box(record: record) }

    /// Creates a value from a record that takes the place of a stored one.
    ///
    /// Only members in which the two differ are changed.
    ///
    /// - Throws: `DecodingError` if the stored value is not of the type: what it has would be lost.
    init<R: SyncedRecord>(_ record: R, over stored: RecordValue) throws {
        _ = try stored.record(R.self, id: record.id)
        // Records that are set over one another make no chain, which would grow with each.
        box = Box(record: record, over: try stored.written())
    }

    /// The members, without the id.
    ///
    /// - Throws: `DecodingError` if the JSON is no object, `EncodingError` if the record cannot be
    ///   written as one, ``Refusal`` if it cannot take the place of what was stored.
    public func fields() throws -> RecordFields { try members().fields }

    private func members() throws -> Members {
        let forms = box.forms.withLock { $0 }
        if let members = forms.members { return members }
        // Outside of the lock: writing a record is the app's code.
        let members =
            if let record = box.record {
                try Self.members(of: record, over: box.stored)
            } else {
                try Members(forms.data ?? Data("{}".utf8))
            }
        box.forms.withLock { $0.members = members }
        return members
    }

    /// The value as it takes the place of a stored one, of which it has the hidden members.
    ///
    /// - Throws: ``Refusal`` if these cannot be kept, `EncodingError` if a number is not finite or
    ///   a name too long, `DecodingError` if this or the stored value is no JSON.
    package func put(over stored: RecordValue?) throws -> RecordValue {
        guard box.stored == nil else { return self }
        let own = try members()
        try JSONValue.object(own.fields).check()
        guard let hidden = try stored?.members().hidden(under: own.fields) else { return self }
        return RecordValue(own.fields, own.hidden?.merging(hidden) ?? hidden)
    }

    /// The value with one member set, and the others as they are.
    ///
    /// - Throws: as ``fields()``.
    package func setting(_ name: String, to value: JSONValue) throws -> RecordValue {
        let members = try members()
        var fields = members.fields
        fields[name] = value
        return RecordValue(fields, try members.hidden(under: fields))
    }

    /// The JSON, with its members in the order of their names, and without the id.
    ///
    /// - Throws: as ``fields()``, and `EncodingError` if a number is not finite or a name too long.
    public func json() throws -> Data {
        let forms = box.forms.withLock { $0 }
        if let data = forms.data { return data }
        let data = try members().json()
        box.forms.withLock { $0.data = data }
        return data
    }

    /// The value as the app's type.
    ///
    /// - Parameters:
    ///   - type: The type of the collection's records.
    ///   - id: The record's id, which is not among the members.
    /// - Returns: The record.
    /// - Throws: `DecodingError` if the members are not those of the type.
    public func record<R: SyncedRecord>(_ type: R.Type = R.self, id: RecordID) throws -> R {
        if let record = box.record as? R { return record }
        if let record = box.forms.withLock({ $0.decoded }) as? R { return record }
        // The members are not kept for this: most records are shown, and never changed.
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
        // A type may read such members, but has to leave them as they are.
        guard new.hidden == known.hidden else {
            throw EncodingError.longName(new.hidden?.name ?? known.hidden?.name ?? "", record)
        }
        let old = try stored.members()
        let members = (migrated ?? old.fields).changed(from: known.fields, to: new.fields)
        return Members(members, try old.hidden(under: members))
    }

    /// What the type knows of the value, as it writes it itself, and all members as its migrations
    /// leave them; `nil` if these change none.
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

    /// The same value, over nothing: its members are written.
    private func written() throws -> RecordValue {
        guard box.stored != nil else { return self }
        let value = RecordValue(RecordFields())
        let members = try members()
        value.box.forms.withLock { ($0.members, $0.decoded) = (members, box.record) }
        return value
    }

    // MARK: - JSON

    /// The member of that name, or `nil` if there is none, or no object.
    public subscript(field: String) -> JSONValue? { (try? fields())?[field] }

    private static func encoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }
}

extension RecordValue: Equatable {
    /// Whether both have the same members, whatever the `==` of the app's type compares.
    public static func == (lhs: RecordValue, rhs: RecordValue) -> Bool {
        if lhs.box === rhs.box { return true }
        let (left, right) = (lhs.box.forms.withLock { $0 }, rhs.box.forms.withLock { $0 })
        if let left = left.data, let right = right.data, left == right { return true }
        guard let left = try? lhs.members(), let right = try? rhs.members() else { return false }
        return left == right
    }
}

extension RecordFields {
    /// These members with the change that leads from the one form of a type to the other.
    ///
    /// Members that neither form has, and members that both have alike, stay as they are here;
    /// objects are changed member by member, and arrays element by element.
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
    /// This value with the change that leads from the one form of a type to the other.
    fileprivate func changed(from old: JSONValue?, to new: JSONValue) -> JSONValue {
        switch (self, old, new) {
        case (.object(let present), .object(let old), .object(let new)):
            .object(present.changed(from: old, to: new))
        // A type that leaves elements out says nothing of which is which.
        case (.array(let present), .array(let old), .array(let new))
        where present.count == old.count:
            .array(Self.elements(of: new, over: present, known: old))
        default: new
        }
    }

    /// The elements of a changed array: those that did not change as they are stored, and changed
    /// ones with the stored members that the type does not know, if they are told apart by a member
    /// `id`.
    private static func elements(
        of new: [JSONValue],
        over present: [JSONValue],
        known old: [JSONValue]
    ) -> [JSONValue] {
        if let oldPlaces = places(of: old), places(of: new) != nil {
            return new.map { element in
                guard let place = element["id"].flatMap({ oldPlaces[$0] }) else { return element }
                guard old[place] != element else { return present[place] }
                return present[place].changed(from: old[place], to: element)
            }
        }
        // Equal elements may be stored with different members: the ends of the array are compared
        // first, so that an insertion or a removal confuses none of them.
        let shorter = min(old.count, new.count)
        let head = zip(old, new).prefix { $0 == $1 }.count
        let tail = zip(old.reversed(), new.reversed()).prefix(shorter - head).prefix { $0 == $1 }
            .count
        var free: [JSONValue: [Int]] = [:]
        for place in (head..<old.count - tail).reversed() {
            free[old[place], default: []].append(place)
        }
        return new.indices.map { index in
            if index < head { return present[index] }
            if index >= new.count - tail { return present[index - new.count + old.count] }
            return free[new[index]]?.popLast().map { present[$0] } ?? new[index]
        }
    }

    /// The places of an array's elements by their ids; `nil` unless each has one of its own.
    private static func places(of elements: [JSONValue]) -> [JSONValue: Int]? {
        var places: [JSONValue: Int] = [:]
        for (place, element) in elements.enumerated() {
            guard let id = element["id"], id != .null, places.updateValue(place, forKey: id) == nil
            else { return nil }
        }
        return places
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
