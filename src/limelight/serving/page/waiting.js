// Look again in a moment; a reload keeps what stands after the "#" of the address.
setTimeout(() => location.reload(), 700);
