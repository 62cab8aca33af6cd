import Foundation

/// What a query's value must be.
typealias CacheableValue = Codable & Equatable & Sendable

/// A value of which a part is never shown.
///
/// Equality is about all of it; observers are only interested in the rest.
protocol PartlyShown {
    /// Whether observers would see no difference between the two.
    func looksSame(as other: Self) -> Bool
}

/// A value of any type, behind one pointer.
///
/// So that the cache needs no knowledge of the type: see ``ErasedQuery``.
// Unchecked because it has a subclass: all that both have is constant.
class ValueBox: @unchecked Sendable {
    let type: ObjectIdentifier

    fileprivate init(type: ObjectIdentifier) { self.type = type }

    /// Puts a value into a box.
    static func of<Value: CacheableValue>(_ value: Value) -> ValueBox { TypedValueBox(value) }

    /// The value, or `nil` if it is of another type.
    func value<Value: CacheableValue>(as type: Value.Type) -> Value? {
        guard self.type == ObjectIdentifier(type) else { return nil }
        // The type was just compared: a checked cast to a generic class costs a look-up of its own.
        return unsafeDowncast(self, to: TypedValueBox<Value>.self).value
    }

    /// Whether the other box has an equal value; runs the app's code.
    func isEqual(to other: ValueBox) -> Bool { false }

    /// Whether observers would see no difference between the two; runs the app's code.
    func looksSame(as other: ValueBox) -> Bool { isEqual(to: other) }

    /// The value as JSON, or `nil` if it cannot be encoded; runs the app's code.
    func encoded() -> Data? { nil }
}

// Unchecked because its class is; constant as well.
private final class TypedValueBox<Value: CacheableValue>: ValueBox, @unchecked Sendable {
    let value: Value

    init(_ value: Value) {
        self.value = value
        super.init(type: ObjectIdentifier(Value.self))
    }

    override func isEqual(to other: ValueBox) -> Bool {
        guard let other = other.value(as: Value.self) else { return false }
        return other == value
    }

    override func looksSame(as other: ValueBox) -> Bool {
        guard Value.self is any PartlyShown.Type else { return isEqual(to: other) }
        func looksSame<Part: PartlyShown>(_ value: Part) -> Bool {
            (other.value(as: Value.self) as? Part).map { value.looksSame(as: $0) } ?? false
        }
        guard let value = value as? any PartlyShown else { return isEqual(to: other) }
        return looksSame(value)
    }

    override func encoded() -> Data? { try? StoredCoding.encode(value) }
}
