package import Foundation
import Synchronization

/// Decodes stored data as types that may have gained or lost members since; see ``Defaulted`` and
/// ``Migrated``.
///
/// Defaults and migrations of every type in the data apply: of the outermost type, and of its
/// members, elements and dictionary values.
///
/// Mutable state: the encoded defaults, guarded by a mutex; at most one for each of the app's
/// stored types.
package final class StoredForm: Sendable {
    /// The faults of stored data for which a type's defaults are used.
    package enum StandIn: Sendable {
        /// Members that are missing, or `null` where the type needs a value.
        case missing
        /// Also values that a member does not recognize, such as a later case of an enumeration.
        case unknownValues
    }

    /// Arguments of mutations, which encode dates as numbers, and inputs of functions, which encode
    /// them in RFC 3339.
    package static let arguments = StoredForm(.missing, date: { try eitherDate(from: $0) })
    /// Records.
    static let records = StoredForm(.unknownValues)

    let standIn: StandIn
    let date: (@Sendable (any Decoder) throws -> Date)?
    /// Numbers that are not finite, by the strings that represent them.
    let notFinite: [String: Double]
    private let encoder: @Sendable () -> JSONEncoder
    private let encoded = Mutex<[ObjectIdentifier: [String: JSONValue]]>([:])

    /// Creates a form.
    ///
    /// - Parameters:
    ///   - standIn: The faults for which defaults are used.
    ///   - date: Decodes a date. Default: as Foundation's decoder does.
    ///   - notFinite: Numbers that are not finite, by the strings that represent them. Default:
    ///     none.
    ///   - encoder: Creates the encoder of defaults. Default: an unconfigured `JSONEncoder`.
    package init(
        _ standIn: StandIn,
        date: (@Sendable (any Decoder) throws -> Date)? = nil,
        notFinite: [String: Double] = [:],
        encoder: @escaping @Sendable () -> JSONEncoder = { JSONEncoder() }
    ) {
        self.standIn = standIn
        self.date = date
        self.notFinite = notFinite
        self.encoder = encoder
    }

    /// Decodes a date from RFC 3339 text, or from the seconds since 2001.
    ///
    /// - Throws: `DecodingError`.
    package static func eitherDate(from decoder: any Decoder) throws -> Date {
        let container = try decoder.singleValueContainer()
        if let moment = (try? container.decode(String.self)).flatMap({ Timestamp($0) }) {
            return moment.date
        }
        return Date(timeIntervalSinceReferenceDate: try container.decode(Double.self))
    }

    /// Decodes JSON text that this program wrote.
    ///
    /// - Parameters:
    ///   - type: The type as the app currently declares it.
    ///   - json: The text, possibly written by an earlier or later version of the app.
    /// - Returns: The value.
    /// - Throws: `DecodingError`, or the error that ``Migrated/migrate(_:)`` threw.
    package func decode<Value: Decodable>(
        _ type: Value.Type,
        from json: Data
    ) throws -> Value {
        try decode(type, from: try JSONValue(written: Array(json)))
    }

    /// Decodes parsed JSON.
    ///
    /// - Throws: As ``decode(_:from:)-(_,Data)``.
    package func decode<Value: Decodable>(
        _ type: Value.Type,
        from stored: JSONValue
    ) throws -> Value {
        try JSONValueDecoder(value: stored, reading: Reading(self)).decoded(type)
    }

    /// Decodes a record.
    ///
    /// - Returns: The record, and its members after all migrations, or `nil` if these changed
    ///   nothing.
    /// - Throws: As ``decode(_:from:)-(_,Data)``.
    func decode<R: SyncedRecord>(
        _ type: R.Type,
        from fields: RecordFields,
        id: RecordID
    ) throws -> (record: R, migrated: RecordFields?) {
        let own = try Self.migrated(fields, for: type) ?? fields
        var members = own
        members["id"] = .string(id.text)
        let reading = Reading(self)
        let record = try JSONValueDecoder(value: .object(members), reading: reading).filled(type)
        let after = reading.migrated(own)
        return (record, after == fields ? nil : after)
    }

    /// Returns the members after the type's ``Migrated/migrate(_:)``, or `nil` if the type has
    /// none.
    static func migrated(
        _ members: [String: JSONValue],
        for type: any Any.Type
    ) throws -> [String: JSONValue]? {
        guard let type = type as? any Migrated.Type else { return nil }
        var members = members
        try type.migrate(&members)
        return members
    }

    /// Returns the defaults of a type, encoded in this form, or `nil` if the type declares none.
    func defaults(of type: any Any.Type) throws -> [String: JSONValue]? {
        guard let type = type as? any Defaulted.Type else { return nil }
        let key = ObjectIdentifier(type)
        if let known = encoded.withLock({ $0[key] }) { return known }
        // Outside of the lock, because encoding runs the app's code.
        let value = try JSONValue(written: Array(encoder().encode(type.defaults)))
        guard case .object(let members) = value else { return nil }
        encoded.withLock { $0[key] = members }
        return members
    }
}

extension StoredForm {
    /// A position in a type that declares defaults, and the default there.
    struct Default {
        struct Place: Hashable {
            let type: ObjectIdentifier
            var path: [String]
        }

        private(set) var place: Place
        /// The value, or `nil` if the default is `nil`, which is not encoded.
        private(set) var value: JSONValue?

        init(of type: any Any.Type, _ members: [String: JSONValue]) {
            place = Place(type: ObjectIdentifier(type), path: [])
            value = .object(members)
        }

        /// Returns the default of a member, or `nil` if the value is not an object.
        func member(_ name: String) -> Default? {
            guard case .object(let members)? = value else { return nil }
            var member = self
            member.place.path.append(name)
            member.value = members[name] == .null ? nil : members[name]
            return member
        }
    }

    /// Tracks one decoding: the defaults that it needs, and the results of migrations.
    ///
    /// A default replaces a member only after decoding without it has failed, so that a type that
    /// tries one member after another finds the stored ones. A position is the same in all elements
    /// of an array, so the number of attempts does not depend on the number of elements.
    ///
    /// An instance is used by one call only.
    final class Reading {
        let form: StoredForm
        private var needed: Set<Default.Place> = []
        private var made: [(path: [any CodingKey], members: [String: JSONValue])] = []

        /// The maximum number of positions in one value that may use defaults.
        private static let mostPlaces = 256

        init(_ form: StoredForm) { self.form = form }

        /// Returns whether decoding needs the default for an unreadable member.
        func needs(_ standIn: Default) -> Bool { needed.contains(standIn.place) }

        /// Records that a value needs a default; returns whether another attempt can succeed.
        func recordDefault(_ error: DecodingError, under decoder: JSONValueDecoder) -> Bool {
            guard let fault = error.place(form.standIn), needed.count < Self.mostPlaces,
                fault.path.count > decoder.codingPath.count
            else { return false }
            var standIn = decoder.defaults
            for key in fault.path.dropFirst(decoder.codingPath.count) {
                standIn = standIn?.member(key.stringValue)
            }
            guard let standIn, standIn.value != nil || fault.isPresent else { return false }
            return needed.insert(standIn.place).inserted
        }

        /// Records the result of a migration, after those of enclosing values.
        func recordMigration(_ members: [String: JSONValue], at path: [any CodingKey]) {
            made.append((path, members))
        }

        /// Returns the members with the results of all migrations.
        func migrated(_ members: RecordFields) -> RecordFields {
            guard !made.isEmpty else { return members }
            var value = JSONValue.object(members)
            for (path, members) in made { value.set(.object(members), at: path[...]) }
            guard case .object(let members) = value else { return members }
            return members
        }
    }
}

extension JSONValue {
    /// Sets the value at a path of members and elements, if the path exists.
    fileprivate mutating func set(_ value: JSONValue, at path: ArraySlice<any CodingKey>) {
        guard let first = path.first else {
            self = value
            return
        }
        switch self {
        case .object(var members):
            members[first.stringValue]?.set(value, at: path.dropFirst())
            self = .object(members)
        case .array(var elements):
            guard let index = first.intValue, elements.indices.contains(index) else { return }
            elements[index].set(value, at: path.dropFirst())
            self = .array(elements)
        default: break
        }
    }
}

extension DecodingError {
    /// The member that a default may replace, and whether it has a value other than `null`.
    fileprivate func place(
        _ standIn: StoredForm.StandIn
    ) -> (path: [any CodingKey], isPresent: Bool)? {
        switch self {
        case .keyNotFound(let key, let context): (context.codingPath + [key], false)
        case .valueNotFound(_, let context): (context.codingPath, false)
        case .dataCorrupted(let context):
            standIn == .unknownValues ? (context.codingPath, true) : nil
        default: nil
        }
    }

    /// Returns whether the error concerns the value at the path itself.
    func isUnreadable(at path: [any CodingKey], _ standIn: StoredForm.StandIn) -> Bool {
        if case .keyNotFound = self { return false }
        return place(standIn)?.path.count == path.count
    }
}

extension Error {
    /// The mismatch of stored data and a type: names of members, and never the user's values.
    package var memberFault: String {
        func name(_ path: [any CodingKey]) -> String {
            path.isEmpty ? "the value" : "the member '\(path.memberPath)'"
        }
        return switch self as? DecodingError {
        case .keyNotFound(let key, let context): "\(name(context.codingPath + [key])) is missing"
        case .typeMismatch(_, let context): "\(name(context.codingPath)) is of another type"
        case .valueNotFound(_, let context): "\(name(context.codingPath)) is null"
        case .dataCorrupted(let context): "\(name(context.codingPath)) has an unknown value"
        default: "it cannot be decoded"
        }
    }
}
