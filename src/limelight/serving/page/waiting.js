// Reload the page after a moment. A reload keeps the part of the address after "#".
setTimeout(() => location.reload(), 700);
