/// A value of any type, behind one pointer.
///
/// So that looking it up needs no knowledge of the type: `cached` is called for every frame, and
/// code that is generic over the value costs many times a dictionary's look-up.
// Unchecked because it has a subclass: all that both have is constant.
class ValueBox: @unchecked Sendable {
    fileprivate let type: ObjectIdentifier

    fileprivate init(type: ObjectIdentifier) { self.type = type }

    /// Puts a value into a box.
    static func of<Value: Sendable>(_ value: Value) -> ValueBox { TypedValueBox(value) }

    /// The value, or `nil` if it is of another type.
    func value<Value: Sendable>(as type: Value.Type) -> Value? {
        guard self.type == ObjectIdentifier(type) else { return nil }
        // The type was just compared: a checked cast to a generic class costs a look-up of its own.
        return unsafeDowncast(self, to: TypedValueBox<Value>.self).value
    }
}

// Unchecked because its class is; constant as well.
private final class TypedValueBox<Value: Sendable>: ValueBox, @unchecked Sendable {
    let value: Value

    init(_ value: Value) {
        self.value = value
        super.init(type: ObjectIdentifier(Value.self))
    }
}
