package import Foundation
import Synchronization

/// Decodes stored data as types that may have other members by now; see ``Defaulted`` and
/// ``Migrated``.
///
/// Defaults and migrations are those of each type in the data: of the outermost, of its members, of
/// elements and of values by names.
///
/// Mutable state: the encoded defaults, guarded by a mutex; as many as the app has stored types.
package final class StoredForm: Sendable {
    /// Which faults of stored data the defaults of a type stand in for.
    package enum StandIn: Sendable {
        /// Members that are missing, or `null` where the type needs a value.
        case missing
        /// Also values that a member does not know, such as a later case of an enumeration.
        case unknownValues
    }

    /// Arguments of mutations, whose dates are numbers, and inputs of functions, whose dates are
    /// RFC 3339.
    package static let arguments = StoredForm(.missing, date: { try eitherDate(from: $0) })
    /// Records.
    static let records = StoredForm(.unknownValues)

    let standIn: StandIn
    let date: (@Sendable (any Decoder) throws -> Date)?
    /// The numbers that are not finite, by the texts that stand for them.
    let notFinite: [String: Double]
    private let encoder: @Sendable () -> JSONEncoder
    private let encoded = Mutex<[ObjectIdentifier: [String: JSONValue]]>([:])

    /// Creates a form.
    ///
    /// - Parameters:
    ///   - standIn: What defaults stand in for.
    ///   - date: Decodes a date. Default: as Foundation's decoder does.
    ///   - notFinite: The numbers that are not finite, by the texts that stand for them. Default:
    ///     none.
    ///   - encoder: Encodes defaults in this form. Default: Foundation's encoder as it is.
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

    /// Decodes a date that is RFC 3339, or the seconds since 2001.
    ///
    /// - Throws: `DecodingError`.
    package static func eitherDate(from decoder: any Decoder) throws -> Date {
        let container = try decoder.singleValueContainer()
        if let moment = (try? container.decode(String.self)).flatMap({ Timestamp($0) }) {
            return moment.date
        }
        return Date(timeIntervalSinceReferenceDate: try container.decode(Double.self))
    }

    /// Decodes JSON text that this program has written.
    ///
    /// - Parameters:
    ///   - type: The type as the app declares it now.
    ///   - json: What an earlier or later version of the app may have written.
    /// - Returns: The value.
    /// - Throws: `DecodingError`, or what ``Migrated/migrate(_:)`` threw.
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
    /// - Returns: The record, and its members as all migrations leave them; `nil` if these change
    ///   none.
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

    /// The members as ``Migrated/migrate(_:)`` of a type leaves them; `nil` if it has none.
    static func migrated(
        _ members: [String: JSONValue],
        for type: any Any.Type
    ) throws -> [String: JSONValue]? {
        guard let type = type as? any Migrated.Type else { return nil }
        var members = members
        try type.migrate(&members)
        return members
    }

    /// The members that a type declares as defaults, in this form; `nil` if it declares none.
    func defaults(of type: any Any.Type) throws -> [String: JSONValue]? {
        guard let type = type as? any Defaulted.Type else { return nil }
        let key = ObjectIdentifier(type)
        if let known = encoded.withLock({ $0[key] }) { return known }
        // Outside of the lock: encoding is the app's code.
        let value = try JSONValue(written: Array(encoder().encode(type.defaults)))
        guard case .object(let members) = value else { return nil }
        encoded.withLock { $0[key] = members }
        return members
    }
}

extension StoredForm {
    /// A place in a type that declares defaults, and what these have there.
    struct Default {
        struct Place: Hashable {
            let type: ObjectIdentifier
            var path: [String]
        }

        private(set) var place: Place
        /// The value; `nil` where the defaults have `nil`, which is not encoded.
        private(set) var value: JSONValue?

        init(of type: any Any.Type, _ members: [String: JSONValue]) {
            place = Place(type: ObjectIdentifier(type), path: [])
            value = .object(members)
        }

        /// The default of a member; `nil` if this is no object.
        func member(_ name: String) -> Default? {
            guard case .object(let members)? = value else { return nil }
            var member = self
            member.place.path.append(name)
            member.value = members[name] == .null ? nil : members[name]
            return member
        }
    }

    /// One call that decodes: which defaults it needs, and what migrations have made.
    ///
    /// A default stands in for a member only after decoding without it has failed. So a type that
    /// tries one member after another finds what is stored. A place is the same in all elements of
    /// an array, and so the number of tries does not depend on how many there are.
    ///
    /// It belongs to one call.
    final class Reading {
        let form: StoredForm
        private var needed: Set<Default.Place> = []
        private var made: [(path: [any CodingKey], members: [String: JSONValue])] = []

        /// How many places of one value defaults may stand in for.
        private static let mostPlaces = 256

        init(_ form: StoredForm) { self.form = form }

        /// Whether a default stands in for a member that cannot be read.
        func needs(_ standIn: Default) -> Bool { needed.contains(standIn.place) }

        /// Notes that a default is needed to decode a value; returns whether that is of any use.
        func note(_ error: DecodingError, under decoder: JSONValueDecoder) -> Bool {
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

        /// Notes what a migration has made, after those around it.
        func note(_ members: [String: JSONValue], at path: [any CodingKey]) {
            made.append((path, members))
        }

        /// The members with what the migrations have made.
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
    /// Sets the value at a path of members and elements, if it is there.
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
    /// The member that a default may stand in for, and whether it has a value other than `null`.
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

    /// Whether the fault is that of the value at a path itself.
    func isUnreadable(at path: [any CodingKey], _ standIn: StoredForm.StandIn) -> Bool {
        if case .keyNotFound = self { return false }
        return place(standIn)?.path.count == path.count
    }
}

extension Error {
    /// What stored data lacks to be of a type: names of members, and never a value of the user's.
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
