public import Foundation
import Synchronization

/// The members of a record's JSON object, without its id.
public typealias RecordFields = [String: JSONValue]

/// What a record holds: JSON, and the app's type that it was read as.
///
/// Bytes become members, and members a value of the app's type, when somebody asks; each is then
/// remembered, because replaying a hundred operations must not decode one record a hundred times.
///
/// Mutable state: what was read so far, guarded by a mutex. It never changes what the value is.
public struct RecordValue: Sendable {
    // A class, so that all copies remember alike.
    private final class Box: Sendable {
        struct Forms {
            var data: Data?
            var fields: RecordFields?
            var record: (any SyncedRecord)?
        }

        let forms: Mutex<Forms>

        init(_ forms: Forms) { self.forms = Mutex(forms) }
    }

    private let box: Box

    /// Creates a value from its members; an id among them is left out.
    public init(_ fields: RecordFields) {
        var fields = fields
        if fields["id"] != nil { fields["id"] = nil }
        box = Box(.init(fields: fields))
    }

    /// Creates a value from JSON, which is read when somebody asks: an object without an id.
    public init(json: Data) { box = Box(.init(data: json)) }

    /// Creates a value from a record.
    public init(_ record: some SyncedRecord) { box = Box(.init(record: record)) }

    /// The members, without the id.
    ///
    /// - Throws: `DecodingError` if the JSON is no object, `EncodingError` if the record cannot be
    ///   written as one.
    public func fields() throws -> RecordFields {
        let forms = box.forms.withLock { $0 }
        if let fields = forms.fields { return fields }
        // Outside of the lock: writing a record is the app's code.
        let data = try forms.data ?? Self.encode(forms.record)
        var fields = try JSONDecoder().decode(RecordFields.self, from: data)
        fields["id"] = nil
        box.forms.withLock { [fields] in $0.fields = fields }
        return fields
    }

    /// The JSON, with its members in the order of their names, and without the id.
    ///
    /// - Throws: as ``fields()``.
    public func json() throws -> Data {
        let forms = box.forms.withLock { $0 }
        if let data = forms.data { return data }
        let data = try Self.encoder().encode(try fields())
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
        if let record = box.forms.withLock({ $0.record }) as? R { return record }
        let record = try JSONDecoder().decode(R.self, from: try json(with: id))
        box.forms.withLock { $0.record = record }
        return record
    }

    private func json(with id: RecordID) throws -> Data {
        // JSON as we write it needs no reading: no character of an id has to be escaped.
        let data = try json()
        let head = Data(#"{"id":"\#(id.text)""#.utf8)
        if data.starts(with: Data(#"{""#.utf8)) {
            return head + Data(",".utf8) + data.dropFirst()
        }
        if data == Data("{}".utf8) { return head + Data("}".utf8) }
        var fields = try fields()
        fields["id"] = .string(id.text)
        return try Self.encoder().encode(fields)
    }

    /// The member of that name, or `nil` if there is none, or no object.
    public subscript(field: String) -> JSONValue? { (try? fields())?[field] }

    private static func encode(_ record: (any SyncedRecord)?) throws -> Data {
        guard let record else { return Data("{}".utf8) }
        return try encoder().encode(record)
    }

    private static func encoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }
}

extension RecordValue: Equatable {
    /// Whether both have the same members.
    public static func == (lhs: RecordValue, rhs: RecordValue) -> Bool {
        if lhs.box === rhs.box { return true }
        let (left, right) = (lhs.box.forms.withLock { $0 }, rhs.box.forms.withLock { $0 })
        if let left = left.record, let right = right.record, left.isEqual(to: right) { return true }
        if let left = left.data, let right = right.data, left == right { return true }
        guard let left = try? lhs.fields(), let right = try? rhs.fields() else { return false }
        return left == right
    }
}

extension SyncedRecord {
    fileprivate func isEqual(to other: any SyncedRecord) -> Bool { other as? Self == self }
}
