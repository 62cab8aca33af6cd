import Foundation

/// The requirements on a query's value.
typealias CacheableValue = Codable & Equatable & Sendable

/// A value with a part that is never shown.
///
/// Equality covers the whole value; observers are notified only of changes to the rest.
protocol PartlyShown {
    /// Returns whether the two values look the same to observers.
    func looksSame(as other: Self) -> Bool
}

/// A value of any type, behind one pointer.
///
/// It lets the cache work without the type: see ``ErasedQuery``.
// Unchecked because it has a subclass: all properties of both are constant.
class ValueBox: @unchecked Sendable {
    let type: ObjectIdentifier

    fileprivate init(type: ObjectIdentifier) { self.type = type }

    /// Wraps a value in a box.
    static func of<Value: CacheableValue>(_ value: Value) -> ValueBox { TypedValueBox(value) }

    /// Returns the value, or `nil` if it is of another type.
    func value<Value: CacheableValue>(as type: Value.Type) -> Value? {
        guard self.type == ObjectIdentifier(type) else { return nil }
        // The type was just compared: a checked cast to a generic class costs a second lookup.
        return unsafeDowncast(self, to: TypedValueBox<Value>.self).value
    }

    /// Returns whether the other box has an equal value; runs the app's code.
    func isEqual(to other: ValueBox) -> Bool { false }

    /// Returns whether the two values look the same to observers; runs the app's code.
    func looksSame(as other: ValueBox) -> Bool { isEqual(to: other) }

    /// Returns the value as JSON, or `nil` if it cannot be encoded; runs the app's code.
    func encoded() -> Data? { nil }
}

// Unchecked because its class is; its properties are constant as well.
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
